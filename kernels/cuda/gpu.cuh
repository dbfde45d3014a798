// What the kernels share: 16-byte packs of elements, sums over warps and blocks in a fixed order,
// and how wide to launch.
#pragma once

#include "trireme/kernels/write.h"

#include "device_code.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/gpu_sizes.h"

namespace trireme::kernels::gpu {

inline constexpr unsigned all_lanes = 0xffffffffu;

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
template <class T>
__device__ __forceinline__ double to_double(T x) {
  return static_cast<double>(to_float(x));
}
template <>
__device__ __forceinline__ double to_double<double>(double x) {
  return x;
}
template <class T>
__device__ __forceinline__ T from_float(float x);
template <>
__device__ __forceinline__ float from_float<float>(float x) {
  return x;
}
template <>
__device__ __forceinline__ __nv_bfloat16 from_float<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}

/// Elements that lie together and are loaded and stored at once, at an address that is a multiple
/// of their bytes, or of 16.
template <class T, int width>
struct alignas(width * sizeof(T) < 16 ? width * sizeof(T) : 16) Vec {
  static constexpr int size = width;
  T values[width];
};
/// 16 bytes: the most that one thread loads and stores at once.
template <class T>
using Pack = Vec<T, 16 / static_cast<int>(sizeof(T))>;

template <int width, class T>
__device__ __forceinline__ Vec<T, width> load(const T* from) {
  gpu_expect_aligned<alignof(Vec<T, width>)>(from);
  return *reinterpret_cast<const Vec<T, width>*>(from);
}
template <class T>
__device__ __forceinline__ Pack<T> load(const T* from) {
  return load<Pack<T>::size>(from);
}
template <class T, int width>
__device__ __forceinline__ void store(T* to, const Vec<T, width>& vec) {
  gpu_expect_aligned<alignof(Vec<T, width>)>(to);
  *reinterpret_cast<Vec<T, width>*>(to) = vec;
}

/// Stores to global memory, 16 bytes by one instruction: the compiler makes smaller stores of some
/// unrolled loops.
template <class T, int width>
__device__ __forceinline__ void store_global(T* to, const Vec<T, width>& vec) {
  if constexpr (sizeof(vec) % sizeof(uint4) == 0) {
    uint4 bits[sizeof(vec) / sizeof(uint4)];
    memcpy(bits, &vec, sizeof(vec));
    for (const uint4& part : bits) gpu_store16(reinterpret_cast<uint4*>(to) + (&part - bits), part);
  } else {
    store(to, vec);
  }
}

/// Vectors of a storage type as fp32, in which all is computed, and back.
template <class T, int width>
__device__ __forceinline__ Vec<float, width> to_floats(const Vec<T, width>& stored) {
  Vec<float, width> vec;
  for (int k = 0; k < width; ++k) vec.values[k] = to_float(stored.values[k]);
  return vec;
}
template <class T, int width>
__device__ __forceinline__ Vec<T, width> from_floats(const Vec<float, width>& vec) {
  Vec<T, width> stored;
  for (int k = 0; k < width; ++k) stored.values[k] = from_float<T>(vec.values[k]);
  return stored;
}
template <int width, class T>
__device__ __forceinline__ Vec<float, width> load_floats(const T* from) {
  return to_floats(load<width>(from));
}
template <class T, int width>
__device__ __forceinline__ void store_floats(T* to, const Vec<float, width>& vec) {
  store(to, from_floats<T>(vec));
}
/// Assigns the vec, or adds it to what is there.
template <class T, int width>
__device__ __forceinline__ void write_floats(T* to, Vec<float, width> vec, Write write) {
  if (write == Write::add) {
    const Vec<float, width> old = load_floats<width>(to);
    for (int k = 0; k < width; ++k) vec.values[k] += old.values[k];
  }
  store_floats(to, vec);
}
/// run(T{}) with T, the type that holds `dtype` on the device: float or __nv_bfloat16 (the checks
/// admit no other).
template <class Run>
void with_storage(DType dtype, const Run& run) {
  if (dtype == DType::bf16)
    run(__nv_bfloat16{});
  else
    run(float{});
}
inline bool aligned16(const void* p) { return reinterpret_cast<std::uintptr_t>(p) % 16 == 0; }
/// Null is aligned.
template <class... Pointers>
bool all_aligned(Pointers... pointers) {
  return (aligned16(pointers) && ...);
}
/// Elements of x before the first multiple of 16 bytes. x is aligned to its elements.
template <class T>
__host__ __device__ __forceinline__ Index elements_to_alignment(const T* x) {
  const auto past = static_cast<Index>(reinterpret_cast<std::uintptr_t>(x) % 16);
  return past == 0 ? 0 : (16 - past) / static_cast<Index>(sizeof(T));
}

struct Sum {
  __device__ float operator()(float a, float b) const { return a + b; }
  __device__ double operator()(double a, double b) const { return a + b; }
};
/// One instruction, which drops a NaN beside a number. Sums of exponentials show it all the same.
struct Max {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

/// Reduces over the warp, in a fixed order; every lane gets the result.
template <class T, class Op>
__device__ __forceinline__ T warp_reduce(T value, Op op) {
  for (int offset = warp_size / 2; offset > 0; offset /= 2)
    value = op(value, __shfl_xor_sync(all_lanes, value, offset));
  return value;
}

/// Reduces over the block (of whole warps), in a fixed order; every thread gets the result.
/// `scratch`: one T a warp, in shared memory; it may be used again after the call.
template <class T, class Op>
__device__ __forceinline__ T block_reduce(T value, Op op, T* scratch) {
  const int lane = static_cast<int>(threadIdx.x) % warp_size;
  const int warp = static_cast<int>(threadIdx.x) / warp_size;
  const int warps = static_cast<int>(blockDim.x) / warp_size;
  value = warp_reduce(value, op);
  if (lane == 0) scratch[warp] = value;
  __syncthreads();
  T total = scratch[0];
  for (int w = 1; w < warps; ++w) total = op(total, scratch[w]);
  __syncthreads();
  return total;
}

/// Shared memory that every kernel may use without a request; leaves space for a few static arrays.
inline constexpr Index shared_bytes_always = 47 * 1024;

inline constexpr int elementwise_threads = 256;

/// Blocks for a loop over `items` that each thread strides through: enough to fill the device,
/// never more than needed.
inline unsigned blocks_for(Stream& stream, Index items, int threads = elementwise_threads) {
  constexpr Index blocks_a_multiprocessor = 8;
  const Index wanted = (items + threads - 1) / threads;
  const Index most = multiprocessors_of(stream) * blocks_a_multiprocessor;
  return static_cast<unsigned>(wanted < 1 ? 1 : wanted < most ? wanted : most);
}

__device__ __forceinline__ Index global_thread() {
  return static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ __forceinline__ Index global_threads() {
  return static_cast<Index>(gridDim.x) * blockDim.x;
}

}  // namespace trireme::kernels::gpu
