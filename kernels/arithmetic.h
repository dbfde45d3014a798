// What the versions of the arithmetic kernels share: the formulas, written once for both devices,
// and the checks of their arguments. CPUs have one version of the loops for all instruction sets:
// the compiler makes vectors of the cheap ones, the others call the C library.
#pragma once

#include <cmath>

#include "trireme/core/error.h"
#include "trireme/core/macros.h"
#include "trireme/kernels/arithmetic.h"

#include "kernels/check_storage.h"

namespace trireme {
namespace formulas {

// value(x), and slope(s) where s is what slope_of() says.

struct Scale {
  float factor;
  TRIREME_HD float value(float x) const { return factor * x; }
  TRIREME_HD float slope(float) const { return factor; }
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

// Each check throws an Error that names the size or the type that does not fit.

template <class Arguments>
void check_arithmetic(const Arguments& p, const char* what) {
  require(p.count >= 0, what, " of ", p.count, " elements");
  check_storage(p.dtype, what);
}

}  // namespace trireme
