// What the versions of the arithmetic kernels share: the formulas, written once for both devices,
// and the checks of their arguments. CPUs have one version of the loops for all instruction sets:
// the compiler makes vectors of the cheap ones, the others call the C library.
#pragma once

#include <cmath>

#include "trireme/core/error.h"
#include "trireme/core/macros.h"
#include "trireme/kernels/arithmetic.h"

#include "kernels/check_storage.h"

namespace trireme::kernels {
namespace formulas {

// value(x), and slope(s) where s is what slope_of() says; slope() where that is nothing.

struct Scale {
  float factor;
  TRIREME_HD float value(float x) const { return factor * x; }
  TRIREME_HD float slope() const { return factor; }
};
struct Sigmoid {
  TRIREME_HD float value(float x) const { return 1 / (1 + std::exp(-x)); }
  TRIREME_HD float slope(float x) const { return value(x) * value(-x); }
};
struct Tanh {
  TRIREME_HD float value(float x) const { return std::tanh(x); }
  TRIREME_HD float slope(float x) const { return 1 - value(x) * value(x); }
};
struct Relu {
  TRIREME_HD float value(float x) const { return x > 0 ? x : x * 0; }  // a NaN stays one
  TRIREME_HD float slope(float y) const { return y > 0 ? 1.0f : 0.0f; }
};
struct Exp {
  TRIREME_HD float value(float x) const { return std::exp(x); }
  TRIREME_HD float slope(float y) const { return y; }
};

struct Product {
  TRIREME_HD float value(float a, float b) const { return a * b; }
};
struct Difference {
  TRIREME_HD float value(float a, float b) const { return a - b; }
};

}  // namespace formulas

/// use(f) with the formula f.
template <class Use>
void with_formula(Formula formula, float factor, const Use& use) {
  switch (formula) {
    case Formula::scale:
      return use(formulas::Scale{factor});
    case Formula::sigmoid:
      return use(formulas::Sigmoid{});
    case Formula::tanh:
      return use(formulas::Tanh{});
    case Formula::relu:
      return use(formulas::Relu{});
    case Formula::exp:
      return use(formulas::Exp{});
  }
}

template <class Use>
void with_pair_formula(PairFormula formula, const Use& use) {
  switch (formula) {
    case PairFormula::product:
      return use(formulas::Product{});
    case PairFormula::difference:
      return use(formulas::Difference{});
  }
}

inline void check_arithmetic(const FormulaForward& p) { check_array(p, "a formula"); }
inline void check_arithmetic(const FormulaBackward& p) {
  check_array(p, "the gradient of a formula");
}
inline void check_arithmetic(const PairForward& p) {
  check_array(p, p.formula == PairFormula::product ? "a product" : "a difference");
}
inline void check_arithmetic(const ProductBackward& p) {
  check_array(p, "the gradient of a product");
}
inline void check_arithmetic(const SumForward& p) { check_array(p, "a sum"); }
inline void check_arithmetic(const SumBackward& p) { check_array(p, "the gradient of a sum"); }

}  // namespace trireme::kernels
