// Arithmetic kernels over flat arrays, and sums of them in fp64.
#include "kernels/arithmetic.h"
#include "kernels/cuda/map.cuh"
#include "kernels/cuda/sums.cuh"

namespace trireme {
namespace gpu {

// ---------------------------------------- kernels ------------------------------------------------

template <class T, class F>
struct ValuesOf {
  static constexpr int pack = Pack<T>::size;
  F f;
  const T* x;
  T* y;
  template <int width>
  __device__ void at(Index i) const {
    Vec<float, width> v = load_floats<width>(x + i);
    for (int k = 0; k < width; ++k) v.values[k] = f.value(v.values[k]);
    store_floats(y + i, v);
  }
};

template <class T, class F>
struct SlopesOf {
  static constexpr int pack = Pack<T>::size;
  F f;
  const T* saved;  // null: the slope is that of 0
  const T* dy;
  T* dx;
  Write write;
  template <int width>
  __device__ void at(Index i) const {
    Vec<float, width> s{}, d = load_floats<width>(dy + i);
    if (saved != nullptr) s = load_floats<width>(saved + i);
    for (int k = 0; k < width; ++k) d.values[k] *= f.slope(s.values[k]);
    write_floats(dx + i, d, write);
  }
};

template <class T, class F>
struct ValuesOfPairs {
  static constexpr int pack = Pack<T>::size;
  F f;
  const T *a, *b;
  T* y;
  template <int width>
  __device__ void at(Index i) const {
    Vec<float, width> p = load_floats<width>(a + i);
    const Vec<float, width> q = load_floats<width>(b + i);
    for (int k = 0; k < width; ++k) p.values[k] = f.value(p.values[k], q.values[k]);
    store_floats(y + i, p);
  }
};

template <class T>
struct ProductGradient {
  static constexpr int pack = Pack<T>::size;
  const T *a, *b, *dy;
  T *da, *db;
  Write write_a, write_b;
  template <int width>
  __device__ void at(Index i) const {
    Vec<float, width> p = load_floats<width>(a + i), q = load_floats<width>(b + i);
    const Vec<float, width> d = load_floats<width>(dy + i);
    for (int k = 0; k < width; ++k) {
      p.values[k] *= d.values[k];
      q.values[k] *= d.values[k];
    }
    if (da != nullptr) write_floats(da + i, q, write_a);
    if (db != nullptr) write_floats(db + i, p, write_b);
  }
};

/// The same number for all elements.
template <class T>
struct SumGradient {
  static constexpr int pack = Pack<T>::size;
  const double* dsum;
  T* dx;
  double factor;
  Write write;
  template <int width>
  __device__ void at(Index i) const {
    Vec<float, width> d;
    for (int k = 0; k < width; ++k) d.values[k] = static_cast<float>(factor * *dsum);
    write_floats(dx + i, d, write);
  }
};

/// parts[blockIdx.x] = this block's part of the sum, in fp64 and a fixed order.
template <class T>
__global__ void __launch_bounds__(sum_threads)
    sum_kernel(const T* x, double factor, Index count, bool aligned, double* parts) {
  __shared__ double scratch[sum_warps];
  double sum = 0;
  const auto add = [&]<int width>(Index i) {
    const Vec<T, width> v = load<width>(x + i);
    for (int k = 0; k < width; ++k) sum += factor * to_double(v.values[k]);
  };
  constexpr int pack = Pack<T>::size;
  const Index packs = aligned ? count / pack : 0;
  for (Index i = global_thread(); i < packs; i += global_threads())
    add.template operator()<pack>(i * pack);
  for (Index i = packs * pack + global_thread(); i < count; i += global_threads())
    add.template operator()<1>(i);
  store_part(sum, scratch, parts);
}

}  // namespace gpu

namespace {

// ---------------------------------------- launchers ----------------------------------------------

template <class... Pointers>
bool all_aligned(Pointers... pointers) {
  return (gpu::aligned16(pointers) && ...);  // null is
}

void formula_forward(Stream& stream, const FormulaForward& p) {
  check_arithmetic(p, "a formula");
  gpu::with_storage(p.dtype, [&]<class T>(T) {
    with_formula(p.formula, p.factor, [&]<class F>(F f) {
      const gpu::ValuesOf<T, F> values{f, static_cast<const T*>(p.x), static_cast<T*>(p.y)};
      gpu::map(stream, values, p.count, all_aligned(p.x, p.y), "formula");
    });
  });
}

void formula_backward(Stream& stream, const FormulaBackward& p) {
  check_arithmetic(p, "the gradient of a formula");
  const void* saved = slope_of(p.formula) == SlopeOf::nothing ? nullptr : p.saved;
  gpu::with_storage(p.dtype, [&]<class T>(T) {
    with_formula(p.formula, p.factor, [&]<class F>(F f) {
      const gpu::SlopesOf<T, F> slopes{f, static_cast<const T*>(saved), static_cast<const T*>(p.dy),
                                       static_cast<T*>(p.dx), p.write};
      gpu::map(stream, slopes, p.count, all_aligned(saved, p.dy, p.dx), "gradient of a formula");
    });
  });
}

template <class F>
void pair_forward(Stream& stream, const PairForward& p, F f, const char* what) {
  check_arithmetic(p, what);
  gpu::with_storage(p.dtype, [&]<class T>(T) {
    const gpu::ValuesOfPairs<T, F> values{f, static_cast<const T*>(p.a), static_cast<const T*>(p.b),
                                          static_cast<T*>(p.y)};
    gpu::map(stream, values, p.count, all_aligned(p.a, p.b, p.y), what);
  });
}
void product_forward(Stream& stream, const PairForward& p) {
  pair_forward(stream, p, formulas::Product{}, "a product");
}
void difference_forward(Stream& stream, const PairForward& p) {
  pair_forward(stream, p, formulas::Difference{}, "a difference");
}

void product_backward(Stream& stream, const ProductBackward& p) {
  check_arithmetic(p, "the gradient of a product");
  gpu::with_storage(p.dtype, [&]<class T>(T) {
    const gpu::ProductGradient<T> f{static_cast<const T*>(p.a),
                                    static_cast<const T*>(p.b),
                                    static_cast<const T*>(p.dy),
                                    static_cast<T*>(p.da),
                                    static_cast<T*>(p.db),
                                    p.write_a,
                                    p.write_b};
    gpu::map(stream, f, p.count, all_aligned(p.a, p.b, p.dy, p.da, p.db), "gradient of a product");
  });
}

void sum_forward(Stream& stream, const SumForward& p) {
  check_arithmetic(p, "a sum");
  const char* what = "sum";
  gpu::with_storage(p.dtype, [&]<class T>(T) {
    const unsigned parts = gpu::parts_for(p.count, 4 * gpu::Pack<T>::size);
    check(gpu_launch(gpu::sum_kernel<T>, dim3(parts), dim3(gpu::sum_threads), 0,
                     cuda_stream_of(stream), static_cast<const T*>(p.x), p.factor, p.count,
                     all_aligned(p.x), static_cast<CudaStream&>(stream).partial_sums()),
          what);
    gpu::add_parts(stream, parts, p.sum, Write::assign, what);
  });
}

void sum_backward(Stream& stream, const SumBackward& p) {
  check_arithmetic(p, "the gradient of a sum");
  gpu::with_storage(p.dtype, [&]<class T>(T) {
    const gpu::SumGradient<T> f{p.dsum, static_cast<T*>(p.dx), p.factor, p.write};
    gpu::map(stream, f, p.count, all_aligned(p.dx), "gradient of a sum");
  });
}

}  // namespace

template <>
const ArithmeticKernels& cuda_kernels<ArithmeticKernels>() {
  static constexpr ArithmeticKernels kernels = {
      formula_forward,    formula_backward, product_forward, product_backward,
      difference_forward, sum_forward,      sum_backward};
  return kernels;
}

}  // namespace trireme
