// What a kernel source (.cu) includes for the device language: the toolkit, and two spellings that
// the host emulation (tests/cuda_emulation/device_code.h) can share. Which of the two files is
// found decides what is built.
#pragma once

#include <cstdint>
#include <utility>

#include <cuda_bf16.h>
#include <cuda_runtime.h>

/// Declares `name`, a pointer to the dynamic shared memory of the block.
#define GPU_DYNAMIC_SHARED(Type, name)                                    \
  extern __shared__ __align__(16) unsigned char trireme_dynamic_shared[]; \
  Type* const name = reinterpret_cast<Type*>(trireme_dynamic_shared)

/// Says that what is loaded or stored at `address` lies at a multiple of `bytes`: a GPU faults
/// where it does not. The emulation looks.
template <int bytes>
__device__ __forceinline__ void gpu_expect_aligned(const void*) {}

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
  constexpr std::size_t always_granted = 47 << 10;  // out of 48 KiB; the rest is for static arrays
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

// Tensor cores and asynchronous copies (sm_80). Every PTX instruction has its function here and its
// twin in the emulation's file. Those for matrices are for whole warps: all 32 lanes call them
// together.

/// d += a b on tensor cores: a (16, 16) and b (16, 8) of bf16 pairs, d (16, 8) of floats. With
/// group = lane / 4 and t = lane % 4, a lane holds of a the columns 2t and 2t + 1 of rows group and
/// group + 8, then columns 2t + 8 and 2t + 9 of both; of b rows 2t and 2t + 1, then 2t + 8 and 2t +
/// 9, of column group; of d columns 2t and 2t + 1 of row group, then of row group + 8.
__device__ __forceinline__ void gpu_mma(float (&d)[4], const std::uint32_t (&a)[4],
                                        std::uint32_t b0, std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// Four 8 x 8 matrices of 16-bit elements from shared memory. Lane 8 m + r names row r of matrix m
/// (16 bytes, aligned); of each matrix a lane gets elements 2t and 2t + 1 of row group, or,
/// transposed, of column group.
__device__ __forceinline__ void gpu_load_matrices(std::uint32_t (&registers)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
               : "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(row)))
               : "memory");
}
__device__ __forceinline__ void gpu_load_matrices_transposed(std::uint32_t (&registers)[4],
                                                             const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(registers[0]), "=r"(registers[1]), "=r"(registers[2]), "=r"(registers[3])
               : "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(row)))
               : "memory");
}

/// Starts a copy of 4 or 16 aligned bytes from global to shared memory; of zeros where nothing is
/// `present`.
template <int bytes>
__device__ __forceinline__ void gpu_copy_async(void* to, const void* from, bool present) {
  static_assert(bytes == 4 || bytes == 16);
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
  const int count = present ? bytes : 0;
  if constexpr (bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from),
                 "r"(count)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(address), "l"(from),
                 "r"(count)
                 : "memory");
}
/// Makes a group of this thread's copies since the last one.
__device__ __forceinline__ void gpu_copy_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}
/// Waits until no more than `groups` of this thread's latest groups are under way. Others see the
/// copies after a barrier.
template <int groups>
__device__ __forceinline__ void gpu_copy_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(groups) : "memory");
}

/// 2^x in one instruction: within 2 ulp, zero for results below 2^-126.
__device__ __forceinline__ float gpu_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
