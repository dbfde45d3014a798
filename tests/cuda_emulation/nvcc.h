// What nvcc gives a source of a library user (a .cu file) before its first line, for the host
// emulation: the device language, and the launch of a kernel by the runtime's C++ interface.
#pragma once

#include "tests/cuda_emulation/device_code.h"

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* launch, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  return gpu_launch_named("a kernel of the user", kernel, launch->gridDim, launch->blockDim,
                          launch->dynamicSmemBytes, launch->stream,
                          std::forward<Arguments>(arguments)...);
}

#define __CUDACC__ 1
