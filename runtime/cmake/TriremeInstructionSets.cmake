# trireme_instruction_sets(module name SETS sets... SOURCES files... [OPTIONS flags...])
# Adds loops to a module that are compiled once per instruction set, each in its namespace
# TRIREME_SIMD, and chosen at run time: portable, and those of SETS where the compiler makes code
# for x86-64 (the module then sees TRIREME_SIMD_X86). The objects may hold code that this machine
# cannot run. A weak symbol among them (an inline function, a template) could replace the portable
# one in the whole program; the test <module>.<name>_objects_have_no_weak_symbols guards that.
# Optimised by -O3 in every build but those of sanitizers, where they took a seventh of the compile
# time: there the portable set is not optimised and watched as a whole; of the other sets, from the
# same sources, UndefinedBehaviorSanitizer watches only what each does by itself, the alignment of
# loads and stores.
function(trireme_instruction_sets module name)
  cmake_parse_arguments(LOOPS "" "" "SETS;SOURCES;OPTIONS" ${ARGN})
  set(flags_portable -O3)
  set(flags_wide -O3)
  if(TRIREME_SANITIZE)
    set(flags_portable -O0)
    set(flags_wide -O1)
  endif()
  if(TRIREME_SANITIZE MATCHES undefined)
    list(APPEND flags_wide -fno-sanitize=undefined -fsanitize=alignment
      -fno-sanitize-recover=alignment)
  endif()
  set(flags_avx2 ${flags_wide} -mavx2 -mfma)
  set(flags_avx512 ${flags_wide} -mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma
    -mprefer-vector-width=512)
  if(TRIREME_SANITIZE MATCHES address AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # AddressSanitizer finds uses after return by frames of its own, which are aligned to 32 bytes,
    # but gcc's code stores whole registers of 64 bytes into them as if aligned. The other sets are
    # compiled from the same sources with that check.
    list(APPEND flags_avx512 --param=asan-use-after-return=0)
  endif()
  set(sets portable)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
    list(APPEND sets ${LOOPS_SETS})
    target_compile_definitions(trireme_${module} PRIVATE TRIREME_SIMD_X86)
  endif()
  foreach(set IN LISTS sets)
    set(target trireme_${name}_${set})
    add_library(${target} OBJECT ${LOOPS_SOURCES})
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/include
      ${PROJECT_SOURCE_DIR})
    target_link_libraries(${target} PRIVATE trireme_warnings)
    target_compile_definitions(${target} PRIVATE TRIREME_SIMD=${set})
    target_compile_options(${target} PRIVATE ${LOOPS_OPTIONS} ${flags_${set}})
    trireme_compile_together(${target})
    list(APPEND targets ${target})
    list(APPEND objects $<TARGET_OBJECTS:${target}>)
  endforeach()
  set_property(TARGET trireme_${module} APPEND PROPERTY TRIREME_EXTRA_OBJECTS ${targets})
  if(TRIREME_TESTS AND NOT TRIREME_SANITIZE)
    add_test(NAME ${module}.${name}_objects_have_no_weak_symbols COMMAND ${CMAKE_COMMAND}
      -DNM=${CMAKE_NM} "-DOBJECTS=${objects}"
      -P ${PROJECT_SOURCE_DIR}/tests/kernels/no_weak_symbols.cmake)
    set_tests_properties(${module}.${name}_objects_have_no_weak_symbols PROPERTIES LABELS unit
      TIMEOUT 60)
  endif()
endfunction()
