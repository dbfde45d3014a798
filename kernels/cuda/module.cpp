#include "kernels/cuda/module.h"

#include <cstdio>

#include "trireme/kernels/cuda.h"

#include "kernels/cuda/cuda_device.h"

extern "C" int trireme_cuda_count(char* text, int text_bytes) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaSuccess && count > 0) return count;
  cudaGetLastError();
  std::snprintf(text, static_cast<std::size_t>(text_bytes), "%s",
                error == cudaSuccess ? "no GPU is visible" : cudaGetErrorString(error));
  return 0;
}

extern "C" trireme::Device* trireme_cuda_open(const trireme::CudaOptions& options, char* text,
                                              int text_bytes) {
  try {
    return new trireme::CudaDevice(options.index, options.gemm_cache);
  } catch (const std::exception& error) {
    std::snprintf(text, static_cast<std::size_t>(text_bytes), "%s", error.what());
    return nullptr;
  }
}
