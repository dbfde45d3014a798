// Products, differences and functions of elements, and their sum.
#pragma once

#include "trireme/core/device.h"
#include "trireme/core/dtype.h"
#include "trireme/kernels/write.h"

namespace trireme {

/// A function of one number. scale: factor * x. relu: 0 where x is negative; its slope is 0 at 0.
enum class Formula { scale, sigmoid, tanh, relu, exp };

/// What the slope of `formula` is computed from.
enum class SlopeOf { nothing, input, output };
constexpr SlopeOf slope_of(Formula formula) {
  switch (formula) {
    case Formula::scale:
      return SlopeOf::nothing;
    case Formula::sigmoid:  // a slope near 0 taken from the output would lose its digits
    case Formula::tanh:
      return SlopeOf::input;
    case Formula::relu:
    case Formula::exp:
      return SlopeOf::output;
  }
  return SlopeOf::nothing;
}

// `void*`: arrays of `dtype`, f32 or bf16, computed with in fp32 and rounded once.

/// y = formula(x).
struct FormulaForward {
  Formula formula;
  Index count;
  const void* x;
  void* y;  // may be x
  float factor = 1;
  DType dtype = DType::f32;
};
/// dx = dy * slope.
struct FormulaBackward {
  Formula formula;
  Index count;
  const void* saved;  // x or y, as slope_of() says; not read for `nothing`
  const void* dy;
  void* dx;  // may be dy
  float factor = 1;
  Write write = Write::assign;
  DType dtype = DType::f32;
};

/// A function of two numbers: a * b, or a - b.
enum class PairFormula { product, difference };

/// y = formula(a, b).
struct PairForward {
  PairFormula formula;
  Index count;
  const void* a;
  const void* b;
  void* y;  // may be a or b
  DType dtype = DType::f32;
};
/// da = dy * b and db = dy * a. Where da is db, db is written last.
struct ProductBackward {
  Index count;
  const void* a;
  const void* b;
  const void* dy;
  void* da;  // null: not wanted; may be dy
  void* db;
  Write write_a = Write::assign, write_b = Write::assign;
  DType dtype = DType::f32;
};

/// sum (1) = factor * x of all elements in fp64, in an order that depends on `count` only.
struct SumForward {
  Index count;
  const void* x;
  double* sum;
  double factor = 1;
  DType dtype = DType::f32;
};
/// dx = factor * *dsum, everywhere.
struct SumBackward {
  Index count;
  const double* dsum;
  void* dx;
  double factor = 1;
  Write write = Write::assign;
  DType dtype = DType::f32;
};

struct ArithmeticKernels {
  void (*formula_forward)(Stream&, const FormulaForward&);
  void (*formula_backward)(Stream&, const FormulaBackward&);
  void (*pair_forward)(Stream&, const PairForward&);
  void (*product_backward)(Stream&, const ProductBackward&);
  void (*sum_forward)(Stream&, const SumForward&);
  void (*sum_backward)(Stream&, const SumBackward&);
};

}  // namespace trireme
