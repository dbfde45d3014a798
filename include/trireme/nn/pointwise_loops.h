// The loops of pointwise ops (nn/pointwise.h): an object with operator()(i) that runs for all i, on
// the threads of a CPU or, where nvcc compiles this, on a GPU.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "trireme/core/bf16.h"
#include "trireme/core/device.h"
#include "trireme/core/macros.h"
#include "trireme/graph/op.h"

// nvcc and the host compiler generate different code from a template, so names must differ.
#if defined(__CUDACC__)
#define TRIREME_POINTWISE_BUILD for_cpus_and_gpus
#else
#define TRIREME_POINTWISE_BUILD for_cpus
#endif

namespace trireme::pointwise_detail {
inline namespace TRIREME_POINTWISE_BUILD {

TRIREME_HD inline float load(const float* x) { return *x; }
TRIREME_HD inline float load(const Bf16* x) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(x->bits) << 16);
}
TRIREME_HD inline void store(float* y, float x) { *y = x; }
/// Like to_bf16 (core/bf16.h), which nvcc treats as host code.
TRIREME_HD inline void store(Bf16* y, float x) {
  const auto bits = __builtin_bit_cast(std::uint32_t, x);
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  const std::uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  y->bits = static_cast<std::uint16_t>(nan ? (bits >> 16) | 0x40u : rounded >> 16);
}

/// f(T{}) with T, the type that holds `dtype`: float or Bf16.
template <class F>
void with_storage(DType dtype, const F& f) {
  if (dtype == DType::bf16)
    f(Bf16{});
  else
    f(float{});
}

template <class T, int n>
struct Pointers {
  const T* of[n];
};
template <class T, int n>
struct Gradients {
  T* of[n];  // null: not wanted
  bool add[n];
};
template <class T, int n>
Pointers<T, n> inputs_of(const Exec& e) {
  Pointers<T, n> x;
  for (int k = 0; k < n; ++k) x.of[k] = e.input(k).template as<T>();
  return x;
}
template <class T, int n>
Gradients<T, n> gradients_of(const Exec& e) {
  Gradients<T, n> dx;
  for (int k = 0; k < n; ++k) {
    dx.of[k] = e.wants(k) ? e.grad_input(k).template as<T>() : nullptr;
    dx.add[k] = e.accumulate(k);
  }
  return dx;
}

template <class F, class T, int n, int... k>
TRIREME_HD auto call(const F& f, const Pointers<T, n>& x, Index i,
                     std::integer_sequence<int, k...>) {
  return f(load(x.of[k] + i)...);
}
/// f of element i of all inputs.
template <class F, class T, int n>
TRIREME_HD auto call(const F& f, const Pointers<T, n>& x, Index i) {
  return call(f, x, i, std::make_integer_sequence<int, n>());
}

template <class T, int n, class F>
struct EachValue {
  Pointers<T, n> x;
  T* y;
  F value;
  TRIREME_HD void operator()(Index i) const { store(y + i, static_cast<float>(call(value, x, i))); }
};

/// dx = dy slope(x). One gradient for all elements where `dy` is null: *seed.
template <class T, int n, int slopes, class F>
struct EachSlope {
  Pointers<T, n> x;
  Gradients<T, slopes> dx;
  const T* dy;
  const double* seed;
  F slope;
  TRIREME_HD void operator()(Index i) const {
    const float g = dy != nullptr ? load(dy + i) : static_cast<float>(*seed);
    const auto by_input = call(slope, x, i);  // all is read before anything is written
    for (int k = 0; k < slopes; ++k) {
      if (dx.of[k] == nullptr) continue;
      float d;
      if constexpr (std::is_convertible_v<decltype(by_input), float>)
        d = g * static_cast<float>(by_input);
      else
        d = g * by_input.of[k];
      store(dx.of[k] + i, dx.add[k] ? load(dx.of[k] + i) + d : d);
    }
  }
};

/// Part i of a sum: `term` of elements i * first, i * first + step, ..., at most `length` of them.
template <class Term>
struct EachPart {
  Term term;
  double* part;
  Index count, first, step, length;
  TRIREME_HD void operator()(Index i) const {
    double sum = 0;
    for (Index k = 0; k < length; ++k)
      if (const Index element = i * first + k * step; element < count) sum += term(element);
    part[i] = sum;
  }
};
template <class T, int n, class F>
struct TermOfValue {
  Pointers<T, n> x;
  F value;
  TRIREME_HD double operator()(Index i) const { return static_cast<double>(call(value, x, i)); }
};
struct TermOfPart {
  const double* part;
  TRIREME_HD double operator()(Index i) const { return part[i]; }
};

#if defined(__CUDACC__)
inline constexpr bool compiled_for_gpus = true;

template <class F>
__global__ void run_kernel(F f, Index count) {
  const Index step = static_cast<Index>(gridDim.x) * blockDim.x;
  for (Index i = static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step)
    f(i);
}
template <class F>
void run_on_gpu(Stream& stream, Index count, const F& f) {
  constexpr Index threads = 256, most_blocks = 65536;
  cudaLaunchConfig_t launch{};
  launch.gridDim = dim3(
      static_cast<unsigned>(std::clamp<Index>((count + threads - 1) / threads, 1, most_blocks)));
  launch.blockDim = dim3(static_cast<unsigned>(threads));
  launch.stream = static_cast<cudaStream_t>(stream.native());
  const cudaError_t error = cudaLaunchKernelEx(&launch, run_kernel<F>, f, count);
  require(error == cudaSuccess, "the kernel of a pointwise op: ", cudaGetErrorString(error));
}
#else
inline constexpr bool compiled_for_gpus = false;  // and refused there while tracing
#endif

/// f(i) for all i < count.
template <class F>
void run(Stream& stream, Index count, const F& f, Index grain = 4096) {
  if (count == 0) return;
#if defined(__CUDACC__)
  if (stream.device().kind() == DeviceKind::cuda) return run_on_gpu(stream, count, f);
#endif
  parallel_for(stream, count, grain, [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) f(i);
  });
}

inline constexpr Index most_parts = 16384, last_parts = 128;

/// *total = sum of value(x) over `count` elements, in an order that depends on `count` only: parts,
/// then sums of parts. A part is a contiguous range on a CPU and a strided one on a GPU, where
/// neighbouring threads read neighbouring elements. `workspace`: most_parts + last_parts numbers.
template <class T, int n, class F>
void sum(Stream& stream, Index count, const Pointers<T, n>& x, const F& value, double* workspace,
         double* total) {
  const bool gpu = stream.device().kind() == DeviceKind::cuda;
  const Index least = gpu ? 1 : 4096;
  const Index length = std::max(least, (count + most_parts - 1) / most_parts);
  const Index parts = (count + length - 1) / length, fewer = std::min(parts, last_parts);
  double* const last = workspace + most_parts;
  run(stream, parts,
      EachPart<TermOfValue<T, n, F>>{
          {x, value}, workspace, count, gpu ? 1 : length, gpu ? parts : 1, length},
      1);
  run(stream, fewer,
      EachPart<TermOfPart>{{workspace}, last, parts, 1, fewer, (parts + fewer - 1) / fewer});
  run(stream, 1, EachPart<TermOfPart>{{last}, total, fewer, 0, 1, fewer});
}

}  // namespace TRIREME_POINTWISE_BUILD
}  // namespace trireme::pointwise_detail
