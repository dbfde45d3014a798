# Is there a CUDA toolkit? TRIREME_CUDA=AUTO builds the CUDA module where nvcc is found, ON insists,
# OFF leaves it out. TRIREME_CUDA_INCLUDE and TRIREME_NCCL_INCLUDE are set wherever the headers are:
# the host emulation needs only those.
set(TRIREME_CUDA AUTO CACHE STRING "Build the CUDA module: AUTO, ON or OFF")
set(TRIREME_CUDA_ARCHITECTURES "80-real;90-real;90-virtual" CACHE STRING "GPU architectures")
set(TRIREME_CUDA_MISSING "")
find_program(NVCC nvcc PATHS /usr/local/cuda/bin ENV CUDACXX)
if(TRIREME_CUDA STREQUAL OFF)
  set(TRIREME_CUDA_MISSING "TRIREME_CUDA is OFF")
elseif(TRIREME_SANITIZE)
  set(TRIREME_CUDA_MISSING "a sanitizer is on")
elseif(NOT NVCC)
  set(TRIREME_CUDA_MISSING "nvcc is not found")
  if(TRIREME_CUDA STREQUAL ON)
    message(FATAL_ERROR
      "nvcc is not found, but TRIREME_CUDA=ON expects it, as continuous integration does: "
      "install the CUDA toolkit, or set TRIREME_CUDA=OFF")
  endif()
else()
  set(CMAKE_CUDA_COMPILER ${NVCC})
  set(CMAKE_CUDA_ARCHITECTURES ${TRIREME_CUDA_ARCHITECTURES})
  # CMake before 3.25.2 does not know that nvcc takes C++20.
  enable_language(CUDA)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA_STANDARD 20)
endif()
if(NVCC)
  get_filename_component(root ${NVCC} REALPATH)
  get_filename_component(root ${root} DIRECTORY)
endif()
find_path(TRIREME_CUDA_INCLUDE cuda_runtime_api.h
  HINTS ${root}/../include ${root}/../targets/x86_64-linux/include
  /usr/local/cuda/include)
find_path(TRIREME_NCCL_INCLUDE nccl.h HINTS ${TRIREME_CUDA_INCLUDE})

# trireme_cuda_module(sources...): the CUDA module trireme_cuda, by nvcc.
function(trireme_cuda_module)
  add_library(trireme_cuda MODULE ${ARGN})
  target_include_directories(trireme_cuda PRIVATE ${PROJECT_SOURCE_DIR}/include
    ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/kernels/cuda/toolkit ${TRIREME_CUDA_INCLUDE})
  target_compile_options(trireme_cuda PRIVATE
    $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr -Xcompiler=-Wall>)
  find_library(TRIREME_CUBLASLT cublasLt
    HINTS ${TRIREME_CUDA_INCLUDE}/../lib64 ${TRIREME_CUDA_INCLUDE}/../lib)
  if(NOT TRIREME_CUBLASLT)
    message(FATAL_ERROR
      "nvcc is at ${NVCC}, but cublasLt is not found: install it, or set TRIREME_CUDA=OFF")
  endif()
  target_link_libraries(trireme_cuda PRIVATE trireme_base fmt::fmt ${TRIREME_CUBLASLT})
  set_target_properties(trireme_cuda PROPERTIES CUDA_RUNTIME_LIBRARY Static)
endfunction()
