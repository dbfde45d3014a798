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

# trireme_precompile(target [CONTROL]): fully optimised, or by -O1, which compiles faster.
trireme_precompiled(common_precompiled)
trireme_precompiled(control_precompiled $<$<CONFIG:Release>:-O1>)
function(trireme_precompile target)
  set(precompiled common_precompiled)
  if("CONTROL" IN_LIST ARGN)
    set(precompiled control_precompiled)
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
  target_precompile_headers(${target} REUSE_FROM ${precompiled})
endfunction()

# trireme_compile_together(target): many of its sources at once, as they include the same headers of
# trireme and instantiate the same templates: half of the compile time. Two of its sources must not
# define one name in unnamed namespaces then. The preset tsan-all compiles each alone.
set(TRIREME_COMPILED_TOGETHER 24 CACHE STRING
  "Sources of a module that are compiled at once; fewer compile less again after a change")
add_library(trireme_compiled_together INTERFACE)  # these come after -Wall and -Wshadow
target_compile_options(trireme_compiled_together INTERFACE -Wno-shadow
  $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
function(trireme_compile_together target)
  if(CMAKE_DISABLE_PRECOMPILE_HEADERS)
    return()
  endif()
  # At least two parts, for two cores.
  get_target_property(sources ${target} SOURCES)
  list(LENGTH sources count)
  math(EXPR half "(${count} + 1) / 2")
  if(half LESS TRIREME_COMPILED_TOGETHER)
    set(batch ${half})
  else()
    set(batch ${TRIREME_COMPILED_TOGETHER})
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${batch})
  target_link_libraries(${target} PRIVATE trireme_compiled_together)
endfunction()
