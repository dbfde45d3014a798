// Arithmetic kernels: launchers and loops.
#include "kernels/arithmetic.h"

#include "trireme/core/bf16.h"

#include "kernels/cpu/cpu_device.h"

namespace trireme::kernels {

namespace {

float load(const float* x) { return *x; }
float load(const Bf16* x) { return to_float(*x); }
void store(float* y, float value) { *y = value; }
void store(Bf16* y, float value) { *y = to_bf16(value); }
template <class T>
void write_to(T* y, float value, Write write) {
  store(y, write == Write::add ? load(y) + value : value);
}

/// f(T{}) with T, the type that holds `dtype` (the checks admit no other).
template <class F>
void with_storage(DType dtype, const F& f) {
  if (dtype == DType::bf16)
    f(Bf16{});
  else
    f(float{});
}

template <class F>
void for_all(Stream& stream, Index count, const F& f) {
  parallel_for(stream, count, grain_calls, [&](Index begin, Index end) {
    for (Index i = begin; i < end; ++i) f(i);
  });
}

void formula_forward(Stream& stream, const FormulaForward& p) {
  check_arithmetic(p);
  with_storage(p.dtype, [&]<class T>(T) {
    with_formula(p.formula, p.factor, [&](auto f) {
      const T* x = static_cast<const T*>(p.x);
      T* y = static_cast<T*>(p.y);
      for_all(stream, p.count, [=](Index i) { store(y + i, f.value(load(x + i))); });
    });
  });
}

void formula_backward(Stream& stream, const FormulaBackward& p) {
  check_arithmetic(p);
  with_storage(p.dtype, [&]<class T>(T) {
    with_formula(p.formula, p.factor, [&](auto f) {
      const T *dy = static_cast<const T*>(p.dy), *saved = static_cast<const T*>(p.saved);
      T* dx = static_cast<T*>(p.dx);
      const Write write = p.write;
      for_all(stream, p.count, [=](Index i) {
        if constexpr (requires { f.slope(); })
          write_to(dx + i, load(dy + i) * f.slope(), write);
        else
          write_to(dx + i, load(dy + i) * f.slope(load(saved + i)), write);
      });
    });
  });
}

void pair_forward(Stream& stream, const PairForward& p) {
  check_arithmetic(p);
  with_storage(p.dtype, [&]<class T>(T) {
    with_pair_formula(p.formula, [&](auto f) {
      const T *a = static_cast<const T*>(p.a), *b = static_cast<const T*>(p.b);
      T* y = static_cast<T*>(p.y);
      for_all(stream, p.count, [=](Index i) { store(y + i, f.value(load(a + i), load(b + i))); });
    });
  });
}

void product_backward(Stream& stream, const ProductBackward& p) {
  check_arithmetic(p);
  with_storage(p.dtype, [&]<class T>(T) {
    const T *a = static_cast<const T*>(p.a), *b = static_cast<const T*>(p.b);
    const T* dy = static_cast<const T*>(p.dy);
    T *da = static_cast<T*>(p.da), *db = static_cast<T*>(p.db);
    const Write write_a = p.write_a, write_b = p.write_b;
    for_all(stream, p.count, [=](Index i) {
      const float x = load(a + i), y = load(b + i), d = load(dy + i);
      if (da != nullptr) write_to(da + i, d * y, write_a);
      if (db != nullptr) write_to(db + i, d * x, write_b);
    });
  });
}

void sum_forward(Stream& stream, const SumForward& p) {
  check_arithmetic(p);
  with_storage(p.dtype, [&]<class T>(T) {
    const T* x = static_cast<const T*>(p.x);
    *p.sum = sum_in_parts(stream, p.count, [&](Index begin, Index end) {
      constexpr Index side_by_side = 8;  // sums, of which none waits for another
      double sums[side_by_side] = {};
      Index i = begin;
      for (; i + side_by_side <= end; i += side_by_side)
        for (Index k = 0; k < side_by_side; ++k)
          sums[k] += p.factor * static_cast<double>(load(x + i + k));
      for (; i < end; ++i) sums[0] += p.factor * static_cast<double>(load(x + i));
      double total = 0;
      for (const double sum : sums) total += sum;
      return total;
    });
  });
}

void sum_backward(Stream& stream, const SumBackward& p) {
  check_arithmetic(p);
  with_storage(p.dtype, [&]<class T>(T) {
    T* dx = static_cast<T*>(p.dx);
    const auto slope = static_cast<float>(p.factor * *p.dsum);
    const Write write = p.write;
    for_all(stream, p.count, [=](Index i) { write_to(dx + i, slope, write); });
  });
}

}  // namespace

const ArithmeticKernels& cpu_table(const ArithmeticKernels*) {
  static constexpr ArithmeticKernels kernels = {formula_forward,  formula_backward, pair_forward,
                                                product_backward, sum_forward,      sum_backward};
  return kernels;
}

}  // namespace trireme::kernels
