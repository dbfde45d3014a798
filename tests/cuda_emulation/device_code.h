// What a kernel source (.cu) sees instead of the toolkit's device language when it is compiled for
// the host: the keywords, the built-in functions that trireme's kernels use, and gpu_launch. A
// kernel that uses another built-in does not compile here, which says what is missing. The
// toolkit's twin is kernels/cuda/toolkit/device_code.h.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>
#include <utility>

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>
#include <vector_functions.h>

#include "tests/cuda_emulation/device_math.h"
#include "tests/cuda_emulation/grid.h"
#include "tests/cuda_emulation/tensor_cores.h"

#undef __shared__
#undef __global__
#undef __device__
#undef __host__
#undef __constant__
#undef __forceinline__
#undef __launch_bounds__
#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __shared__ static __attribute__((section("trireme_shared")))

/// Declares `name`, a pointer to the dynamic shared memory of the block.
#define GPU_DYNAMIC_SHARED(Type, name) \
  Type* const name = static_cast<Type*>(::trireme::emulation::Grid::instance().dynamic_shared())

#define TRIREME_EMULATION_TEXT(x) #x
#define TRIREME_EMULATION_LINE(x) TRIREME_EMULATION_TEXT(x)
#define TRIREME_EMULATION_HERE __FILE__ ":" TRIREME_EMULATION_LINE(__LINE__)

#define __syncthreads() ::trireme::emulation::Grid::instance().block_sync(TRIREME_EMULATION_HERE)
#define __syncwarp(...)                                                                        \
  ::trireme::emulation::Grid::instance().warp_sync(::trireme::emulation::mask_of(__VA_ARGS__), \
                                                   TRIREME_EMULATION_HERE)

namespace trireme::emulation {
inline std::uint32_t mask_of() { return Grid::instance().live_lanes(); }
inline std::uint32_t mask_of(std::uint32_t mask) { return mask; }
}  // namespace trireme::emulation

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  auto& grid = trireme::emulation::Grid::instance();
  const int first = grid.lane() & ~(width - 1);
  return grid.shuffle(mask, value, first | (source & (width - 1)), "__shfl_sync");
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int other, int width = 32) {
  auto& grid = trireme::emulation::Grid::instance();
  const int lane = grid.lane(), source = lane ^ other;
  const bool outside = (source & ~(width - 1)) > (lane & ~(width - 1));
  return grid.shuffle(mask, value, outside ? lane : source, "__shfl_xor_sync");
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  auto& grid = trireme::emulation::Grid::instance();
  const int lane = grid.lane(), source = lane + static_cast<int>(delta);
  const bool outside = (source & ~(width - 1)) != (lane & ~(width - 1));
  return grid.shuffle(mask, value, outside ? lane : source, "__shfl_down_sync");
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32) {
  auto& grid = trireme::emulation::Grid::instance();
  const int lane = grid.lane(), source = lane - static_cast<int>(delta);
  const bool outside = source < 0 || (source & ~(width - 1)) != (lane & ~(width - 1));
  return grid.shuffle(mask, value, outside ? lane : source, "__shfl_up_sync");
}
inline unsigned __ballot_sync(unsigned mask, int predicate) {
  return trireme::emulation::Grid::instance().ballot(mask, predicate != 0, "__ballot_sync");
}
inline int __any_sync(unsigned mask, int predicate) { return __ballot_sync(mask, predicate) != 0; }
inline int __all_sync(unsigned mask, int predicate) {
  return __ballot_sync(mask, predicate) == mask;
}

// One operating system thread drives all fibers, so plain operations are atomic. Blocks run in
// turn, so fences only order.
inline void __threadfence() {}
#define TRIREME_EMULATED_ATOMIC(name, result)                \
  template <class T, class U>                                \
  EMULATION_UNSEEN T name(T* address, U operand) {           \
    const T value = static_cast<T>(operand), old = *address; \
    *address = (result);                                     \
    return old;                                              \
  }
TRIREME_EMULATED_ATOMIC(atomicAdd, static_cast<T>(old + value))
TRIREME_EMULATED_ATOMIC(atomicMax, std::max(old, value))
TRIREME_EMULATED_ATOMIC(atomicInc, old >= value ? T{0} : static_cast<T>(old + 1))
#undef TRIREME_EMULATED_ATOMIC

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(std::uint64_t{a} * b >> 32);
}
template <class T>
T __ldg(const T* address) {
  return *address;
}
template <class T>
T __ldcg(const T* address) {
  return *address;
}

namespace trireme::emulation {
inline void require_aligned(const void* address, std::size_t bytes, const char* what) {
  if (reinterpret_cast<std::uintptr_t>(address) % bytes != 0)
    Grid::instance().fail("%s: %p is not a multiple of %zu bytes", what, address, bytes);
}
}  // namespace trireme::emulation
template <int bytes>
void gpu_expect_aligned(const void* address) {
  trireme::emulation::require_aligned(address, bytes, "load or store");
}
inline void gpu_store16(void* to, uint4 bits) {
  gpu_expect_aligned<16>(to);
  *static_cast<uint4*>(to) = bits;
}

// Tensor cores and asynchronous copies: the twins of the PTX in kernels/cuda/toolkit/device_code.h,
// which has the comments.
namespace trireme::emulation {
inline void load_matrices(std::uint32_t (&registers)[4], const void* row, bool transposed) {
  require_aligned(row, 16, "ldmatrix");
  LoadMatrices mine{registers, row, transposed};
  Grid::instance().together(&mine, load_matrices_of_warp, "ldmatrix");
}
}  // namespace trireme::emulation
inline void gpu_mma(float (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                    std::uint32_t b1) {
  trireme::emulation::MmaFragments mine{d, a, {b0, b1}};
  trireme::emulation::Grid::instance().together(&mine, trireme::emulation::mma_of_warp, "mma");
}
inline void gpu_load_matrices(std::uint32_t (&registers)[4], const void* row) {
  trireme::emulation::load_matrices(registers, row, false);
}
inline void gpu_load_matrices_transposed(std::uint32_t (&registers)[4], const void* row) {
  trireme::emulation::load_matrices(registers, row, true);
}
template <int bytes>
void gpu_copy_async(void* to, const void* from, bool present) {
  static_assert(bytes == 4 || bytes == 16);
  trireme::emulation::require_aligned(to, bytes, "cp.async to");
  trireme::emulation::require_aligned(from, bytes, "cp.async from");
  trireme::emulation::Grid::instance().copies().start(to, from, bytes, present ? bytes : 0);
}
inline void gpu_copy_commit() { trireme::emulation::Grid::instance().copies().commit(); }
template <int groups>
void gpu_copy_wait() {
  trireme::emulation::Grid::instance().copies().wait(groups);
}
inline float gpu_exp2(float x) { return x < -126.0f ? 0.0f : trireme::kernels::gpu::exp2f(x); }

namespace trireme::emulation {
/// Runs `operation` on the host when the stream gets to it (cuda_runtime.cpp).
void enqueue(cudaStream_t stream, const char* name, std::function<void()> operation);
/// Of the next launch of a kernel: it fails where a test has asked for that.
cudaError_t begin_launch();
}  // namespace trireme::emulation

/// kernel<<<grid, block, shared_bytes, stream>>>(arguments...)
template <class... Parameters, class... Arguments>
cudaError_t gpu_launch_named(const char* name, void (*kernel)(Parameters...), dim3 grid, dim3 block,
                             std::size_t shared_bytes, cudaStream_t stream, Arguments&&... given) {
  if (shared_bytes > trireme::emulation::most_shared_bytes()) return cudaErrorInvalidValue;
  if (const cudaError_t error = trireme::emulation::begin_launch()) return error;
  std::tuple<std::decay_t<Parameters>...> arguments(
      static_cast<std::decay_t<Parameters>>(std::forward<Arguments>(given))...);
  trireme::emulation::enqueue(stream, name, [=] {
    trireme::emulation::Grid::instance().run(name, grid, block, shared_bytes,
                                             [&] { std::apply(kernel, arguments); });
  });
  return cudaSuccess;
}
#define gpu_launch(kernel, ...) gpu_launch_named(#kernel, kernel, __VA_ARGS__)
