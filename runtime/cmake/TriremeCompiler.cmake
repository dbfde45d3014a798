# Compiler settings. No -march=native: vector code is chosen at run time (kernels/).
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)
set(CMAKE_CXX_FLAGS_RELEASE "-O3 -g1")
# Installed programs find the library beside them, wherever the prefix is moved to.
set(CMAKE_INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}" "$ORIGIN")

add_library(trireme_warnings INTERFACE)
target_compile_options(trireme_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor
  $<$<BOOL:${TRIREME_WERROR}>:-Werror>)
if(TRIREME_WERROR AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # What gcc infers from its optimiser is false now and then, differently in each version: shown,
  # but no error.
  foreach(warning array-bounds maybe-uninitialized restrict stringop-overflow stringop-overread)
    target_compile_options(trireme_warnings INTERFACE -Wno-error=${warning})
  endforeach()
endif()

if(TRIREME_SANITIZE)
  add_compile_options(-fsanitize=${TRIREME_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${TRIREME_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
    # What gcc defines by itself. The runtime is linked into programs; libraries find it there.
    foreach(sanitizer address thread)
      if(TRIREME_SANITIZE MATCHES ${sanitizer})
        string(TOUPPER ${sanitizer} name)
        add_compile_definitions(__SANITIZE_${name}__=1)
      endif()
    endforeach()
    include_directories(BEFORE SYSTEM ${PROJECT_SOURCE_DIR}/tests/tidy)
    # libFuzzer (tests/fuzz) sees by these counters what a text has reached. Those of comparisons,
    # by which it guesses words, would slow down other tests too; it has dictionaries.
    if(TRIREME_SANITIZE MATCHES address)
      set(TRIREME_FUZZED core store data models interop)  # modules
      set(TRIREME_FUZZED_OPTIONS -fsanitize-coverage=inline-8bit-counters,pc-table)
    endif()
  endif()
endif()

if(NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_CURRENT_LIST_DIR}/compiler_cache)
endif()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
