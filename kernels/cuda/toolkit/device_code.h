// What a kernel source (.cu) includes for the device language: the toolkit, and two spellings that the host emulation
// (tests/cuda_emulation/device_code.h) can share. Which of the two files is found decides what is built.
#pragma once

#include <cstdint>
#include <utility>

#include <cuda_bf16.h>
#include <cuda_runtime.h>

/// Declares `name`, a pointer to the dynamic shared memory of the block.
#define GPU_DYNAMIC_SHARED(Type, name)                                    \
  extern __shared__ __align__(16) unsigned char trireme_dynamic_shared[]; \
  Type* const name = reinterpret_cast<Type*>(trireme_dynamic_shared)

/// Stores 16 bytes in global memory, at an address that is a multiple of 16, by one instruction.
__device__ __forceinline__ void gpu_store16(void* to, uint4 bits) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)),
               "r"(bits.x), "r"(bits.y), "r"(bits.z), "r"(bits.w)
               : "memory");
}

/// kernel<<<grid, block, shared_bytes, stream>>>(arguments...)
template <class... Parameters, class... Arguments>
cudaError_t gpu_launch(void (*kernel)(Parameters...), dim3 grid, dim3 block,
                       std::size_t shared_bytes, cudaStream_t stream, Arguments&&... given) {
  constexpr std::size_t always_granted = 47 << 10;  // of 48 KiB; the rest is for static arrays
  if (shared_bytes > always_granted) {
    const cudaError_t error = cudaFuncSetAttribute(
        kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes));
    if (error != cudaSuccess) return error;
  }
  cudaLaunchConfig_t configuration{};
  configuration.gridDim = grid;
  configuration.blockDim = block;
  configuration.dynamicSmemBytes = shared_bytes;
  configuration.stream = stream;
  return cudaLaunchKernelEx(&configuration, kernel,
                            static_cast<Parameters>(std::forward<Arguments>(given))...);
}
