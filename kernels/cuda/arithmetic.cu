// Arithmetic kernels over flat arrays, and sums of them in fp64.
#include "kernels/arithmetic.h"
#include "kernels/cuda/formulas.cuh"
#include "kernels/cuda/sums.cuh"

namespace trireme::kernels {
namespace gpu {

// ---------------------------------------- kernels ------------------------------------------------

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

/// Adds factor * x to a sum in fp64.
template <class T>
struct SumTerms {
  static constexpr int pack = Pack<T>::size;
  const T* x;
  double factor;
  template <int width>
  __device__ void add(Index i, double& sum) const {
    const Vec<T, width> v = load<width>(x + i);
    for (int k = 0; k < width; ++k) sum += factor * to_double(v.values[k]);
  }
};

}  // namespace gpu

namespace {

// ---------------------------------------- launchers ----------------------------------------------

void formula_forward(Stream& stream, const FormulaForward& p) {
  check_arithmetic(p);
  gpu::with_storage(p.dtype, [&]<class T>(T) {
    with_formula(p.formula, p.factor, [&]<class F>(F f) {
      const gpu::ValuesOf<T, F> values{f, static_cast<const T*>(p.x), static_cast<T*>(p.y)};
      gpu::map(stream, values, p.count, gpu::all_aligned(p.x, p.y), "formula");
    });
  });
}

void formula_backward(Stream& stream, const FormulaBackward& p) {
  check_arithmetic(p);
  const void* saved =
      slope_of(p.formula) == SlopeOf::nothing ? nullptr : p.saved;  // null is aligned
  gpu::with_storage(p.dtype, [&]<class T>(T) {
    with_formula(p.formula, p.factor, [&]<class F>(F f) {
      const gpu::SlopesOf<T, F> slopes{f, static_cast<const T*>(saved), static_cast<const T*>(p.dy),
                                       static_cast<T*>(p.dx), p.write};
      gpu::map(stream, slopes, p.count, gpu::all_aligned(saved, p.dy, p.dx),
               "gradient of a formula");
    });
  });
}

void pair_forward(Stream& stream, const PairForward& p) {
  check_arithmetic(p);
  gpu::with_storage(p.dtype, [&]<class T>(T) {
    with_pair_formula(p.formula, [&]<class F>(F f) {
      const gpu::ValuesOfPairs<T, F> values{f, static_cast<const T*>(p.a),
                                            static_cast<const T*>(p.b), static_cast<T*>(p.y)};
      gpu::map(stream, values, p.count, gpu::all_aligned(p.a, p.b, p.y), "formula of pairs");
    });
  });
}

void product_backward(Stream& stream, const ProductBackward& p) {
  check_arithmetic(p);
  gpu::with_storage(p.dtype, [&]<class T>(T) {
    const gpu::ProductGradient<T> f{static_cast<const T*>(p.a),
                                    static_cast<const T*>(p.b),
                                    static_cast<const T*>(p.dy),
                                    static_cast<T*>(p.da),
                                    static_cast<T*>(p.db),
                                    p.write_a,
                                    p.write_b};
    gpu::map(stream, f, p.count, gpu::all_aligned(p.a, p.b, p.dy, p.da, p.db),
             "gradient of a product");
  });
}

void sum_forward(Stream& stream, const SumForward& p) {
  check_arithmetic(p);
  gpu::with_storage(p.dtype, [&]<class T>(T) {
    const gpu::SumTerms<T> f{static_cast<const T*>(p.x), p.factor};
    gpu::sum(stream, f, p.count, gpu::all_aligned(p.x), p.sum, "sum");
  });
}

void sum_backward(Stream& stream, const SumBackward& p) {
  check_arithmetic(p);
  gpu::with_storage(p.dtype, [&]<class T>(T) {
    const gpu::SumGradient<T> f{p.dsum, static_cast<T*>(p.dx), p.factor, p.write};
    gpu::map(stream, f, p.count, gpu::all_aligned(p.dx), "gradient of a sum");
  });
}

}  // namespace

const ArithmeticKernels& cuda_table(const ArithmeticKernels*) {
  static constexpr ArithmeticKernels kernels = {formula_forward,  formula_backward, pair_forward,
                                                product_backward, sum_forward,      sum_backward};
  return kernels;
}

}  // namespace trireme::kernels
