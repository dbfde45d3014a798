# Options and third-party packages.
option(TRIREME_TESTS "Build the tests and benchmarks" ON)
option(TRIREME_WERROR "Treat warnings as errors (CI does)" OFF)
set(TRIREME_SANITIZE "" CACHE STRING "Sanitizers for -fsanitize=, e.g. address,undefined")

include(TriremeCompiler)

find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(MPI REQUIRED COMPONENTS C)
# oneDNN by library and header: its CMake package wants OpenCL.
find_path(DNNL_INCLUDE_DIR dnnl.h REQUIRED)
find_library(DNNL_LIBRARY dnnl REQUIRED)
# So are PCRE2 and utf8proc, which have CMake packages in some distributions only.
find_path(PCRE2_INCLUDE_DIR pcre2.h REQUIRED)
find_library(PCRE2_LIBRARY pcre2-8 REQUIRED)
find_path(UTF8PROC_INCLUDE_DIR utf8proc.h REQUIRED)
find_library(UTF8PROC_LIBRARY utf8proc REQUIRED)
# Compressed text; the zstd of Debian 12 and Ubuntu 22.04 has no CMake package.
find_package(ZLIB REQUIRED)
find_package(BZip2 REQUIRED)
find_package(LibLZMA REQUIRED)
find_path(ZSTD_INCLUDE_DIR zstd.h REQUIRED)
find_library(ZSTD_LIBRARY zstd REQUIRED)
# HDF5, the serial C library; xxHash is used as a header.
find_package(HDF5 REQUIRED COMPONENTS C)
add_library(trireme_hdf5 INTERFACE)
target_include_directories(trireme_hdf5 SYSTEM INTERFACE ${HDF5_C_INCLUDE_DIRS})
target_compile_definitions(trireme_hdf5 INTERFACE ${HDF5_C_DEFINITIONS})
target_link_libraries(trireme_hdf5 INTERFACE ${HDF5_C_LIBRARIES})
