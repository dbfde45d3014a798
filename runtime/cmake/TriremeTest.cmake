# How tests are made and registered. A test that cannot run here is not registered; trireme_left_out
# says which and why, and tests/run prints it. Every test has a timeout and the label of its kind:
# unit, mpi, gpu, emulated, integration or consumer. Tests with the label long as well are in
# tests/run --all only, all others in --full too, where those with the label control run under
# sanitizers only, and those with the labels full and unwatched without them only. Tests with the
# label default and all of unit and mpi are in tests/run too, but for those with the label full. The
# target default_tests builds what tests/run needs, and nothing else.
add_custom_target(default_tests)

# One place for what mpirun needs: launch/mpirun.env.
file(STRINGS ${PROJECT_SOURCE_DIR}/launch/mpirun.env TRIREME_MPI_ENVIRONMENT REGEX "^[A-Z]")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/launch/mpirun.env)
find_program(TRIREME_MPIRUN mpirun REQUIRED)
# By its name, as the trireme command starts it, so that tests/run can count the starts of both
# (tests/support/counted/mpirun). Tests name the layer of messages that one machine gets anyway:
# each rank tries others first, for 0.1 s and more. comm_mpi_tests.np2_any_layer leaves Open MPI its
# choice.
set(TRIREME_MPIRUN_COMMAND ${CMAKE_COMMAND} -E env ${TRIREME_MPI_ENVIRONMENT} OMPI_MCA_pml=ob1
  mpirun)
list(JOIN TRIREME_MPIRUN_COMMAND " " TRIREME_MPIRUN_LINE)

# Jobs of tests do not measure the GEMM peak, which takes longer than most of them train, and keep
# none in the user's home. Sanitizers must know of Open MPI and libgomp; clang's read lines by
# addr2line where there is no llvm-symbolizer.
set(TRIREME_TEST_ENVIRONMENT OMP_NUM_THREADS=1 TRIREME_GEMM_PEAK=1e11)
if(TRIREME_SANITIZE)
  set(dir ${PROJECT_SOURCE_DIR}/tests/sanitizers)
  list(APPEND TRIREME_TEST_ENVIRONMENT
    "LSAN_OPTIONS=suppressions=${dir}/lsan.supp:print_suppressions=0"
    "TSAN_OPTIONS=suppressions=${dir}/tsan.supp:halt_on_error=1:history_size=4"
    "ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1:allow_addr2line=1"
    "UBSAN_OPTIONS=print_stacktrace=1")
endif()

# Can this machine make namespaces, and so simulate several nodes
# (tests/support/simulated_node)?
execute_process(COMMAND unshare --uts --ipc --pid --mount --fork --mount-proc mount -t tmpfs tmpfs
  /dev/shm
  RESULT_VARIABLE status OUTPUT_QUIET ERROR_QUIET)
set(TRIREME_SIMULATED_NODES FALSE)
if(status EQUAL 0 AND NOT TRIREME_SANITIZE)
  set(TRIREME_SIMULATED_NODES TRUE)
endif()

file(WRITE ${PROJECT_BINARY_DIR}/tests_left_out.txt "")
# trireme_left_out(what why): a line of the summary of tests/run.
function(trireme_left_out what why)
  file(APPEND ${PROJECT_BINARY_DIR}/tests_left_out.txt "${what}: ${why}\n")
endfunction()

# GoogleTest is parsed once, not in each test. What is left is mostly code for assertions, so tests
# are not optimised, but for those that compute much (OPTIMISED below), by -O1. They have no debug
# information, but for sanitizers, whose reports need the lines. All three are there for the time
# that tests take to compile.
function(trireme_test_options name optimisation)
  target_compile_options(${name} PRIVATE "$<$<CONFIG:Release>:${optimisation};-g0>")
  if(TRIREME_SANITIZE AND optimisation STREQUAL -O0)
    target_compile_options(${name} PRIVATE -O0)
  endif()
  # ccache must see that header
  target_compile_options(${name} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
endfunction()

foreach(optimisation -O0 -O1)
  set(name gtest_precompiled${optimisation})
  add_executable(${name} EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/runtime/cmake/empty.cpp)
  target_link_libraries(${name} PRIVATE trireme_warnings GTest::gtest_main GTest::gmock)
  target_precompile_headers(${name} PRIVATE <gmock/gmock.h> <gtest/gtest.h>)
  trireme_test_options(${name} ${optimisation})
endforeach()

# trireme_test_objects(name SOURCES files... [OPTIMISED]): sources of tests, compiled once for
# several programs.
function(trireme_test_objects name)
  cmake_parse_arguments(T "OPTIMISED" "" "SOURCES" ${ARGN})
  set(optimisation -O0)
  if(T_OPTIMISED)
    set(optimisation -O1)
  endif()
  add_library(${name} OBJECT ${T_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
  trireme_test_options(${name} ${optimisation})
  # As programs are, for which those headers are made.
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${name} PRIVATE -fPIE)
  target_precompile_headers(${name} REUSE_FROM gtest_precompiled${optimisation})
  target_link_libraries(${name} PRIVATE test_support trireme_warnings GTest::gtest GTest::gmock)
endfunction()

# trireme_test_program(name SOURCES files... [MODULE module] [OPTIMISED] [PRECOMPILED target]): a
# GoogleTest program, linked with one module and the modules below it, or with the whole library.
# PRECOMPILED: the target that holds the headers, in place of those of GoogleTest alone.
function(trireme_test_program name)
  cmake_parse_arguments(T "OPTIMISED" "MODULE;PRECOMPILED" "SOURCES;LIBRARIES" ${ARGN})
  set(optimisation -O0)
  if(T_OPTIMISED)
    set(optimisation -O1)
  endif()
  if(NOT T_PRECOMPILED)
    set(T_PRECOMPILED gtest_precompiled${optimisation})
  endif()
  add_executable(${name} ${T_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  trireme_test_options(${name} ${optimisation})
  target_precompile_headers(${name} REUSE_FROM ${T_PRECOMPILED})
  target_link_libraries(${name} PRIVATE test_support)
  if(T_MODULE)
    trireme_link_module(${name} ${T_MODULE})
  else()
    target_link_libraries(${name} PRIVATE trireme trireme_warnings fmt::fmt)
  endif()
  target_link_libraries(${name} PRIVATE ${T_LIBRARIES} GTest::gtest GTest::gmock)
endfunction()

# trireme_record_test_program(name prefix labels...): the tests of this program, whose names begin
# with the prefix, run under sanitizers where their label is unit or emulated. test_programs.txt of
# the build directory has a line for each such program: its name, the prefix and the modules that it
# is linked with, or `programs` where it has the whole library. tests/run chooses among them by
# tests/changed_modules.
function(trireme_record_test_program name prefix)
  if(ARGN MATCHES "unit|emulated")
    set_property(GLOBAL APPEND PROPERTY TRIREME_TEST_PROGRAMS "${name} ${prefix}")
  endif()
endfunction()

# Programs have all their libraries only when the tree is read.
function(trireme_write_test_programs)
  file(STRINGS ${PROJECT_BINARY_DIR}/modules.txt known)
  list(TRANSFORM known REPLACE " .*" "")
  get_property(programs GLOBAL PROPERTY TRIREME_TEST_PROGRAMS)
  set(lines "")
  foreach(program IN LISTS programs)
    string(REGEX REPLACE " .*" "" name ${program})
    get_target_property(libraries ${name} LINK_LIBRARIES)
    get_target_property(sources ${name} SOURCES)
    set(modules)
    foreach(module IN LISTS known)
      if(trireme_${module} IN_LIST libraries)
        list(APPEND modules ${module})
      endif()
    endforeach()
    if(NOT modules OR sources MATCHES "${PROJECT_SOURCE_DIR}/launch/")
      list(APPEND modules programs)
    endif()
    list(JOIN modules " " modules)
    string(APPEND lines "${program} ${modules}\n")
  endforeach()
  file(WRITE ${PROJECT_BINARY_DIR}/test_programs.txt "${lines}")
endfunction()
cmake_language(DEFER DIRECTORY ${PROJECT_SOURCE_DIR} CALL trireme_write_test_programs)

# trireme_sanitized_timeout(variable): five times as long where tests are watched, hardly optimised.
function(trireme_sanitized_timeout variable)
  if(TRIREME_SANITIZE)
    math(EXPR longer "${${variable}} * 5")
    set(${variable} ${longer} PARENT_SCOPE)
  endif()
endfunction()

# trireme_mpi_environment(variable): TRIREME_TEST_ENVIRONMENT for tests that mpirun starts.
function(trireme_mpi_environment variable)
  set(environment ${TRIREME_TEST_ENVIRONMENT})
  # What Open MPI's plugins leak has no name once they are unloaded, so lsan.supp cannot
  # distinguish it from ours.
  list(TRANSFORM environment REPLACE "^ASAN_OPTIONS=" "ASAN_OPTIONS=detect_leaks=0:")
  # Open MPI's plugins synchronise where ThreadSanitizer cannot see it, and cannot be suppressed one
  # by one, since they are unloaded.
  list(TRANSFORM environment REPLACE "^TSAN_OPTIONS=suppressions=[^:]*"
    "TSAN_OPTIONS=ignore_noninstrumented_modules=1")
  set(${variable} ${environment} PARENT_SCOPE)
endfunction()

# trireme_mpi_test(name SOURCES files... [MODULE module] RANKS counts... [TIMEOUT seconds]
#   [LABELS labels...] [ARGS args...])
# A GoogleTest program whose main makes an MpiSession (tests/support/mpi_main.cpp), run by mpirun
# once for each number of ranks, as test <name>.np<ranks>. An odd number and one with groups within
# groups come first: where 3 and 4 run, 2 and 8 have the label full.
function(trireme_mpi_test name)
  cmake_parse_arguments(T "" "MODULE;TIMEOUT" "SOURCES;RANKS;ARGS;LABELS" ${ARGN})
  if(NOT T_TIMEOUT)
    # Ranks that wait for each other take ten times as long where programs keep the cores busy.
    set(T_TIMEOUT 400)
  endif()
  if(NOT T_LABELS)
    set(T_LABELS mpi)
  endif()
  trireme_test_program(${name} SOURCES ${T_SOURCES} ${PROJECT_SOURCE_DIR}/tests/support/mpi_main.cpp
    MODULE ${T_MODULE})
  if(T_MODULE)
    trireme_link_module(${name} comm_mpi)
  endif()
  trireme_record_test_program(${name} ${name}.np ${T_LABELS})
  trireme_mpi_environment(environment)
  trireme_sanitized_timeout(T_TIMEOUT)
  # mpirun ends its ranks itself; ctest would leave them running
  math(EXPR before_timeout "${T_TIMEOUT} - 5")
  foreach(ranks IN LISTS T_RANKS)
    set(labels ${T_LABELS})
    if(ranks MATCHES "^(2|8)$" AND "3" IN_LIST T_RANKS AND "4" IN_LIST T_RANKS)
      list(APPEND labels full)
    endif()
    add_test(NAME ${name}.np${ranks}
      COMMAND ${TRIREME_MPIRUN_COMMAND} --timeout ${before_timeout} -np ${ranks}
      $<TARGET_FILE:${name}> ${T_ARGS})
    set_tests_properties(${name}.np${ranks} PROPERTIES LABELS "${labels}" TIMEOUT ${T_TIMEOUT}
      PROCESSORS ${ranks}
      ENVIRONMENT "${environment}")
  endforeach()
  if("default" IN_LIST T_LABELS)
    add_dependencies(default_tests ${name})
  endif()
endfunction()

# trireme_discover_tests(program PREFIX prefix TIMEOUT seconds LABELS labels... [DEFAULT names...]
#   [FULL names...] [UNWATCHED names...] [PROCESSORS count] [ONE_PROCESSOR names...]
#   [ALL_PROCESSORS names...])
# One ctest for each TEST of a program. DEFAULT, FULL and UNWATCHED name tests or whole suites that
# have the label default, full or unwatched as well, where not all have it; a name that the program
# lacks is an error of ctest. ONE_PROCESSOR and ALL_PROCESSORS name those that take as many in place
# of PROCESSORS; the program need not have all of them.
# (gtest_discover_tests cannot hand over a property that is a list, hence the file.)
function(trireme_discover_tests name)
  cmake_parse_arguments(T "" "PREFIX;TIMEOUT;PROCESSORS"
    "LABELS;DEFAULT;FULL;UNWATCHED;ONE_PROCESSOR;ALL_PROCESSORS" ${ARGN})
  if(NOT T_PROCESSORS)
    set(T_PROCESSORS 1)
  endif()
  trireme_record_test_program(${name} ${T_PREFIX} ${T_LABELS})
  trireme_sanitized_timeout(T_TIMEOUT)
  gtest_discover_tests(${name} TEST_PREFIX ${T_PREFIX} DISCOVERY_TIMEOUT 60
    PROPERTIES TIMEOUT ${T_TIMEOUT} PROCESSORS ${T_PROCESSORS})
  foreach(names DEFAULT FULL UNWATCHED ONE_PROCESSOR ALL_PROCESSORS)
    list(TRANSFORM T_${names} PREPEND ${T_PREFIX})
  endforeach()
  set(file ${CMAKE_CURRENT_BINARY_DIR}/${name}_properties.cmake)
  configure_file(${PROJECT_SOURCE_DIR}/runtime/cmake/test_properties.cmake.in ${file} @ONLY)
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${file})
  if(T_DEFAULT OR "default" IN_LIST T_LABELS)
    add_dependencies(default_tests ${name})
  endif()
endfunction()

# trireme_unit_tests(program name TIMEOUT seconds [OF library] [FULL names...]
#   [UNWATCHED names...])
# The tests <name>.* of the label unit, of the code in the library. Whole matrices of layouts, which
# take seconds, are named by FULL, or by UNWATCHED where the default tier has them: --full runs them
# without sanitizers only. Of a program without matrices whose code is control code
# (trireme_precompile), all tests have the label control: --full runs them under sanitizers only,
# and does not build them without. Optimisation changes little there, and integration tests run the
# optimised code.
function(trireme_unit_tests program name)
  cmake_parse_arguments(T "" "TIMEOUT;OF" "FULL;UNWATCHED" ${ARGN})
  set(labels unit)
  if(T_OF AND NOT T_FULL AND NOT T_UNWATCHED)
    get_target_property(control ${T_OF} TRIREME_CONTROL)
    if(control)
      list(APPEND labels control)
      set_target_properties(${program} PROPERTIES EXCLUDE_FROM_ALL ON)
    endif()
  endif()
  trireme_discover_tests(${program} PREFIX ${name}. TIMEOUT ${T_TIMEOUT} LABELS ${labels}
    FULL ${T_FULL} UNWATCHED ${T_UNWATCHED})
  add_dependencies(unit_tests ${program})
endfunction()
