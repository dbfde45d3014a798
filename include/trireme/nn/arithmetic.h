// Arithmetic on values, each a pointwise op of its own, in f32 and bf16, anywhere on the tensor
// axis. As every op of nn/pointwise.h they work on CPUs, and on GPUs too in a file that nvcc
// compiles; elsewhere a GPU refuses them by name while tracing. The other ops of nn work on both
// everywhere.
#pragma once

#include <cmath>

#include "trireme/nn/pointwise.h"

namespace trireme {
inline namespace TRIREME_POINTWISE_BUILD {
namespace arithmetic_detail {

struct Product {
  TRIREME_HD float operator()(float a, float b) const { return a * b; }
};
struct ProductSlopes {
  TRIREME_HD auto operator()(float a, float b) const { return Slopes{b, a}; }
};
struct Minus {
  TRIREME_HD float operator()(float a, float b) const { return a - b; }
};
struct MinusSlopes {
  TRIREME_HD auto operator()(float, float) const { return Slopes{1.0f, -1.0f}; }
};
struct Scaled {
  float factor;
  TRIREME_HD float operator()(float x) const { return factor * x; }
};
struct ScaledSlope {
  float factor;
  TRIREME_HD float operator()(float) const { return factor; }
};
TRIREME_HD inline float logistic(float x) { return 1 / (1 + std::exp(-x)); }
struct Sigmoid {
  TRIREME_HD float operator()(float x) const { return logistic(x); }
};
struct SigmoidSlope {
  TRIREME_HD float operator()(float x) const { return logistic(x) * logistic(-x); }
};
struct Tanh {
  TRIREME_HD float operator()(float x) const { return std::tanh(x); }
};
struct TanhSlope {
  TRIREME_HD float operator()(float x) const { return 1 - std::tanh(x) * std::tanh(x); }
};
struct Relu {
  TRIREME_HD float operator()(float x) const { return x > 0 ? x : x * 0; }  // a NaN stays one
};
struct ReluSlope {
  TRIREME_HD float operator()(float x) const { return x > 0 ? 1.0f : 0.0f; }
};
struct Exp {
  TRIREME_HD float operator()(float x) const { return std::exp(x); }
};

}  // namespace arithmetic_detail

/// a * b, elementwise, of one shape.
inline Value operator*(Value a, Value b) {
  return pointwise("multiply", arithmetic_detail::Product{}, arithmetic_detail::ProductSlopes{}, a,
                   b);
}
/// a - b, elementwise, of one shape. (a + b: nn/add.h.)
inline Value operator-(Value a, Value b) {
  return pointwise("subtract", arithmetic_detail::Minus{}, arithmetic_detail::MinusSlopes{}, a, b);
}
inline Value operator*(float factor, Value x) {
  return pointwise("scale", arithmetic_detail::Scaled{factor},
                   arithmetic_detail::ScaledSlope{factor}, x);
}
inline Value operator*(Value x, float factor) { return factor * x; }
inline Value operator-(Value x) { return -1.0f * x; }

inline Value sigmoid(Value x) {
  return pointwise("sigmoid", arithmetic_detail::Sigmoid{}, arithmetic_detail::SigmoidSlope{}, x);
}
inline Value tanh(Value x) {
  return pointwise("tanh", arithmetic_detail::Tanh{}, arithmetic_detail::TanhSlope{}, x);
}
/// x where it is positive, else 0. Its slope at 0 is 0.
inline Value relu(Value x) {
  return pointwise("relu", arithmetic_detail::Relu{}, arithmetic_detail::ReluSlope{}, x);
}
inline Value exp(Value x) {
  return pointwise("exp", arithmetic_detail::Exp{}, arithmetic_detail::Exp{}, x);
}

/// The sum of all elements, of all tensor ranks, as an fp64 scalar: a loss.
inline Value sum(Value x) {
  return pointwise_sum("sum", arithmetic_detail::Scaled{1}, arithmetic_detail::ScaledSlope{1}, x);
}
/// The sum over the rows (dim 0) of each row's mean, as an fp64 scalar: the loss of a data source
/// that counts one target a row, whatever the size of a micro-batch. x: whole.
inline Value mean(Value x) {
  require(x && x.place() == Place::whole && x.shape().dims() > 0,
          "mean takes a whole value of rows");
  const float each = static_cast<float>(x.shape()[0]) / static_cast<float>(x.shape().count());
  return pointwise_sum("mean", arithmetic_detail::Scaled{each},
                       arithmetic_detail::ScaledSlope{each}, x);
}

}  // namespace TRIREME_POINTWISE_BUILD

/// Matrices of the same rows side by side: (rows, a), (rows, b), ... -> (rows, a + b + ...), on any
/// device. Of split values each rank puts its own columns, or rows, together.
Value concat_columns(const Values& parts);

}  // namespace trireme
