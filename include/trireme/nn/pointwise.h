// An op from two scalar functions: its value and its slopes. It owns no memory, checks the shapes,
// computes only the requested gradients, and works in f32 and bf16 on all threads of the rank:
//
//   Value gated(Value x, Value y) {
//     return pointwise("gated", [](float a, float b) { return a * logistic(b); },
//                      [](float a, float b) {
//                        const float s = logistic(b);
//                        return Slopes{s, a * s * (1 - s)};
//                      }, x, y);
//   }
//
// In a .cpp file it works on CPUs. In a .cu file, compiled by nvcc, it works on GPUs as well; the
// functions are then objects whose operator() is marked TRIREME_HD (examples/custom_op).
#pragma once

#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "trireme/graph/graph.h"
#include "trireme/nn/pointwise_loops.h"
#include "trireme/nn/pointwise_slopes.h"

namespace trireme {

namespace pointwise_detail {
inline namespace TRIREME_POINTWISE_BUILD {

/// What every pointwise op has in common: inputs of one shape, gradients of the first `slopes`.
class PointwiseOp : public Op {
 public:
  PointwiseOp(std::string name, int inputs, int slopes)
      : name_(std::move(name)), inputs_(inputs), slopes_(slopes) {}
  std::string name() const override { return name_; }
  Saved saved(const BackwardWork&) const override {
    Saved all = Saved::nothing();
    for (int k = 0; k < inputs_; ++k) all = all | Saved::input(k);
    return all;
  }
  bool differentiable(int input) const override { return input < slopes_; }
  bool accumulates(int input) const override { return input < slopes_; }
  bool works_in(DType dtype) const override { return dtype == DType::f32 || dtype == DType::bf16; }
  bool works_on(DeviceKind kind) const override {
    return kind == DeviceKind::cpu || compiled_for_gpus;
  }
  double flops(const Specs& in) const override {
    return 10.0 * static_cast<double>(in[0].shape.count());
  }

 protected:
  void check(const Specs& in) const {
    for (const Spec& x : in)
      require(x.shape == in[0].shape && x.dtype == in[0].dtype && works_in(x.dtype),
              "takes f32 or bf16 values of one shape and type, not ", in[0], " and ", x);
  }

 private:
  std::string name_;
  int inputs_, slopes_;
};

template <int inputs, int slopes, class Value, class Slope>
class Elementwise final : public PointwiseOp {
 public:
  Elementwise(std::string name, Value value, Slope slope)
      : PointwiseOp(std::move(name), inputs, slopes), value_(value), slope_(slope) {}
  Outputs infer(const Specs& in) const override {
    check(in);
    return {Spec(in[0].shape, in[0].dtype)};
  }
  Sharing sharing() const override {
    Sharing sharing;
    for (int k = 0; k < inputs; ++k) sharing.output_over_input(0, k);
    for (int k = 0; k < slopes; ++k) sharing.gradient_over_output(k, 0);
    return sharing;
  }
  void forward(Exec& e) const override {
    with_storage(e.output(0).dtype, [&](auto stored) {
      using T = decltype(stored);
      run(e.stream(), e.output(0).count(),
          EachValue<T, inputs, Value>{inputs_of<T, inputs>(e), e.output(0).as<T>(), value_});
    });
  }
  void backward(Exec& e) const override {
    with_storage(e.grad_output(0).dtype, [&](auto stored) {
      using T = decltype(stored);
      run(e.stream(), e.grad_output(0).count(),
          EachSlope<T, inputs, slopes, Slope>{inputs_of<T, inputs>(e), gradients_of<T, slopes>(e),
                                              e.grad_output(0).as<T>(), nullptr, slope_});
    });
  }

 private:
  Value value_;
  Slope slope_;
};

/// The sum of the values in fp64, over all tensor ranks where `sharded`.
template <int inputs, int slopes, class Value, class Slope>
class Sum final : public PointwiseOp {
 public:
  Sum(std::string name, bool sharded, Value value, Slope slope)
      : PointwiseOp(std::move(name), inputs, slopes),
        sharded_(sharded),
        value_(value),
        slope_(slope) {}
  Outputs infer(const Specs& in) const override {
    check(in);
    return {Spec(Shape{}, DType::f64)};
  }
  Index forward_workspace_bytes(const Specs&) const override {
    return (most_parts + last_parts) * static_cast<Index>(sizeof(double));
  }
  Index backward_workspace_bytes(const Specs&) const override { return 0; }
  Sharing sharing() const override {
    Sharing sharing;
    for (int k = 0; k < slopes; ++k) sharing.gradient_over_input(k, k);
    return sharing;
  }
  Placement placement(const Placements& in, const std::vector<bool>&) const override {
    for (const Placement placement : in)
      require(placement == (sharded_ ? Placement::sharded : Placement::replicated),
              "sums values that are all replicated or all sharded on the tensor axis, not ", in[0],
              " and ", placement, ": leave the tensor-parallel region first");
    return Placement::replicated;
  }
  void forward(Exec& e) const override {
    auto* loss = e.output(0).as<double>();
    with_storage(e.input(0).dtype, [&](auto stored) {
      using T = decltype(stored);
      sum(e.stream(), e.input(0).count(), inputs_of<T, inputs>(e), value_,
          static_cast<double*>(e.workspace()), loss);
    });
    if (sharded_)
      e.group(Role::tensor).all_reduce({loss, 1, DType::f64}, Reduction::sum, e.stream());
  }
  void backward(Exec& e) const override {
    with_storage(e.input(0).dtype, [&](auto stored) {
      using T = decltype(stored);
      run(e.stream(), e.input(0).count(),
          EachSlope<T, inputs, slopes, Slope>{inputs_of<T, inputs>(e), gradients_of<T, slopes>(e),
                                              nullptr, e.grad_output(0).as<double>(), slope_});
    });
  }

 private:
  bool sharded_;
  Value value_;
  Slope slope_;
};

}  // namespace TRIREME_POINTWISE_BUILD
}  // namespace pointwise_detail

inline namespace TRIREME_POINTWISE_BUILD {

/// value(a, b, ...) of every element of inputs of one shape. `slope` takes the same numbers and
/// returns the derivative by the first input, or Slopes{...} by the first few; no gradient flows to
/// the others. Elements of sharded values are treated alike, so it works anywhere on the tensor
/// axis.
template <class F, class D, std::same_as<Value>... More>
Value pointwise(const std::string& name, F value, D slope, Value x, More... more) {
  constexpr int inputs = 1 + static_cast<int>(sizeof...(More));
  constexpr int slopes =
      pointwise_detail::OpSlopes<F, D, std::make_integer_sequence<int, inputs>>::value;
  return apply<pointwise_detail::Elementwise<inputs, slopes, F, D>>({x, more...}, name, value,
                                                                    slope);
}

/// The sum of value(a, b, ...) over all elements, an fp64 scalar without dims: a loss. Its order is
/// fixed. The inputs are all replicated, or all sharded (without padding): the sum is
/// then that of all ranks.
template <class F, class D, std::same_as<Value>... More>
Value pointwise_sum(const std::string& name, F value, D slope, Value x, More... more) {
  constexpr int inputs = 1 + static_cast<int>(sizeof...(More));
  constexpr int slopes =
      pointwise_detail::OpSlopes<F, D, std::make_integer_sequence<int, inputs>>::value;
  const bool sharded = x && x.placement() == Placement::sharded;
  return apply<pointwise_detail::Sum<inputs, slopes, F, D>>({x, more...}, name, sharded, value,
                                                            slope);
}

}  // namespace TRIREME_POINTWISE_BUILD
}  // namespace trireme
