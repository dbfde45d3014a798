# The headers of the standard library and of fmt that most sources include are parsed once, not in
# each of them. Sources include what they use all the same; the preset tsan-all has no precompiled
# headers, so tests/run --all shows what is missing.
set(TRIREME_COMMON_HEADERS <algorithm> <array> <chrono> <cmath> <cstdint> <cstring> <filesystem>
  <functional> <map> <memory> <optional> <set> <string> <string_view> <utility> <vector>
  <fmt/format.h>)

# trireme_precompiled(name options...): the target that holds them, for targets with these options.
function(trireme_precompiled name)
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/runtime/cmake/empty.cpp)
  target_link_libraries(${name} PRIVATE trireme_warnings fmt::fmt)
  target_compile_options(${name} PRIVATE ${ARGN}
    $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)  # ccache must see that header
  target_precompile_headers(${name} PRIVATE ${TRIREME_COMMON_HEADERS})
endfunction()

# trireme_precompile(target [CONTROL]): fully optimised, or by -O1, which compiles faster; under
# sanitizers of clang not at all, which takes it two fifths of the time (g++ nine tenths).
set(TRIREME_CONTROL_OPTIONS $<$<CONFIG:Release>:-O1>)
if(TRIREME_SANITIZE AND CMAKE_CXX_COMPILER_ID MATCHES Clang)
  set(TRIREME_CONTROL_OPTIONS -O0)
endif()
trireme_precompiled(common_precompiled)
trireme_precompiled(control_precompiled ${TRIREME_CONTROL_OPTIONS})
function(trireme_precompile target)
  set(precompiled common_precompiled)
  if("CONTROL" IN_LIST ARGN)
    set(precompiled control_precompiled)
    target_compile_options(${target} PRIVATE ${TRIREME_CONTROL_OPTIONS})
    set_target_properties(${target} PROPERTIES TRIREME_CONTROL ON)  # for trireme_unit_tests
  endif()
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
  target_precompile_headers(${target} REUSE_FROM ${precompiled})
endfunction()

# Many sources are compiled at once, as they include the same headers of trireme and instantiate the
# same templates: half of the compile time. Two of them must not define one name in unnamed
# namespaces then. The preset tsan-all compiles each alone.
set(TRIREME_COMPILED_TOGETHER 24 CACHE STRING
  "Sources of a module that are compiled at once; fewer compile less again after a change")
add_library(trireme_compiled_together INTERFACE)  # these come after -Wall and -Wshadow
target_compile_options(trireme_compiled_together INTERFACE -Wno-shadow
  $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)

# trireme_batch_size(variable sources...): how many of them a unit has: at most half, for two cores.
function(trireme_batch_size variable)
  math(EXPR size "${ARGC} / 2")  # ARGC counts the variable too, so this rounds up
  if(size GREATER TRIREME_COMPILED_TOGETHER)
    set(size ${TRIREME_COMPILED_TOGETHER})
  endif()
  set(${variable} ${size} PARENT_SCOPE)
endfunction()

# trireme_compile_together(target): what C++ it has.
function(trireme_compile_together target)
  if(CMAKE_DISABLE_PRECOMPILE_HEADERS)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  trireme_batch_size(batch ${sources})
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${batch})
  target_link_libraries(${target} PRIVATE trireme_compiled_together)
endfunction()

# trireme_cuda_units(variable sources...): the same for .cu, which CMake before 3.31 compiles one by
# one: sets the variable to files that include them, or to the sources where each is compiled alone.
function(trireme_cuda_units variable)
  if(CMAKE_DISABLE_PRECOMPILE_HEADERS)
    set(${variable} ${ARGN} PARENT_SCOPE)
    return()
  endif()
  trireme_batch_size(batch ${ARGN})
  math(EXPR last "(${ARGC} - 2) / ${batch}")
  set(index 0)
  foreach(source IN LISTS ARGN)
    math(EXPR unit "${index} % (${last} + 1)")  # those of a family are in different units
    string(APPEND text_${unit} "#include \"${source}\"\n")
    math(EXPR index "${index} + 1")
  endforeach()
  foreach(unit RANGE ${last})
    set(file ${CMAKE_CURRENT_BINARY_DIR}/Unity/unity_${unit}_cuda.cu)
    file(CONFIGURE OUTPUT ${file} CONTENT "${text_${unit}}" @ONLY)
    list(APPEND units ${file})
  endforeach()
  set(${variable} ${units} PARENT_SCOPE)
endfunction()
