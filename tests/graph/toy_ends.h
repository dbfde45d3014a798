// Toy ops: where values come from and go to: tables, rows of tables, a loss, the tensor axis.
#pragma once

#include <cmath>

#include "trireme/graph/graph.h"

#include "tests/graph/test_device.h"

namespace trireme::test {

/// Made from nothing, as tables of rotations are.
class Table final : public Op {
 public:
  explicit Table(Shape shape) : shape_(shape) {}
  std::string name() const override { return "table"; }
  Outputs infer(const Specs&) const override { return {Spec(shape_)}; }
  void forward(Exec& e) const override {
    for (Index i = 0; i < shape_.count(); ++i)
      e.output(0).as<float>()[i] = std::cos(0.7f * static_cast<float>(i));
  }
  void backward(Exec&) const override { throw Error("never called: no inputs"); }

 private:
  Shape shape_;
};

/// Rows of a table; tokens: i32 (rows). Adds to the gradient of the table.
class Rows final : public Op {
 public:
  std::string name() const override { return "rows"; }
  Outputs infer(const Specs& in) const override { return {Spec{in[0].shape[0], in[1].shape[1]}}; }
  Saved saved(const BackwardWork&) const override { return Saved::input(0); }
  bool differentiable(int i) const override { return i == 1; }
  bool accumulates(int i) const override { return i == 1; }
  void forward(Exec& e) const override {
    move(e, e.output(0).as<float>(), e.input(1).as<float>(), false);
  }
  void backward(Exec& e) const override {
    if (e.wants(1)) move(e, e.grad_output(0).as<float>(), e.grad_input(1).as<float>(), true);
  }

 private:
  static void move(Exec& e, float* rows, float* table, bool back) {
    const Tensor& tokens = e.input(0);
    const Index width = back ? e.grad_input(1).shape[1] : e.input(1).shape[1];
    if (back && !e.accumulate(1)) e.stream().zero(table, e.grad_input(1).bytes());
    const Index height = back ? e.grad_input(1).shape[0] : e.input(1).shape[0];
    for (Index r = 0; r < tokens.count(); ++r)
      for (Index i = 0; i < width; ++i) {
        const Index token = tokens.as<std::int32_t>()[r];
        require(0 <= token && token < height, "token ", token, " is not below ", height);
        float& entry = table[token * width + i];
        float& row = rows[r * width + i];
        back ? entry += row : row = entry;
      }
  }
};

/// Loss: sum of (x - target)^2 / 2 as one f64.
class SquaredError final : public Op {
 public:
  std::string name() const override { return "squared_error"; }
  Outputs infer(const Specs& in) const override {
    require(in[0].shape == in[1].shape, "x and target differ");
    return {Spec(Shape{}, DType::f64)};
  }
  Saved saved(const BackwardWork&) const override { return Saved::input(0) | Saved::input(1); }
  bool differentiable(int i) const override { return i == 0; }
  Sharing sharing() const override { return Sharing().gradient_over_input(0, 0); }
  void forward(Exec& e) const override {
    double sum = 0;
    for (Index i = 0; i < e.input(0).count(); ++i) {
      const double d = e.input(0).as<float>()[i] - e.input(1).as<float>()[i];
      sum += d * d / 2;
    }
    *e.output(0).as<double>() = sum;
  }
  void backward(Exec& e) const override {
    const auto seed = static_cast<float>(*e.grad_output(0).as<double>());
    for (Index i = 0; i < e.input(0).count(); ++i)
      e.grad_input(0).as<float>()[i] =
          seed * (e.input(0).as<float>()[i] - e.input(1).as<float>()[i]);
  }
};

enum class LossMade { in_forward, in_backward };

/// Loss: sum of w (x - target)^2 / 2. Inputs: x, target, w, of one shape. Backward works with the
/// differences, a side output, and can make them and the loss itself.
class WeightedError final : public Op {
 public:
  explicit WeightedError(LossMade made) : made_(made) {}
  std::string name() const override { return "weighted_error"; }
  Outputs infer(const Specs& in) const override {
    return {Spec(Shape{}, DType::f64), Output::side(in[0])};
  }
  Saved saved(const BackwardWork&) const override {
    return Saved::input(0) | Saved::input(1) | Saved::input(2) | Saved::output(1);
  }
  bool forward_in_backward() const override { return made_ == LossMade::in_backward; }
  Sharing sharing() const override { return Sharing().gradient_over_input(0, 0); }
  bool differentiable(int i) const override { return i != 1; }
  bool accumulates(int i) const override { return i == 2; }
  void forward(Exec& e) const override {
    const float *x = e.input(0).as<float>(), *target = e.input(1).as<float>();
    double sum = 0;
    for (Index i = 0; i < e.input(0).count(); ++i) {
      const float d = e.output(1).as<float>()[i] = x[i] - target[i];
      sum += static_cast<double>(e.input(2).as<float>()[i] * d * d / 2);
    }
    *e.output(0).as<double>() = sum;
  }
  void backward(Exec& e) const override {
    if (e.makes_outputs()) forward(e);
    const auto seed = static_cast<float>(*e.grad_output(0).as<double>());
    for (Index i = 0; i < e.output(1).count(); ++i) {
      const float d = e.output(1).as<float>()[i];
      if (e.wants(0)) e.grad_input(0).as<float>()[i] = seed * e.input(2).as<float>()[i] * d;
      if (!e.wants(2)) continue;
      float& dw = e.grad_input(2).as<float>()[i];
      dw = (e.accumulate(2) ? dw : 0) + seed * d * d / 2;
    }
  }

 private:
  LossMade made_;
};

/// Into the tensor axis: nothing to do forward, all-reduce backward. Out of it: the other way
/// round.
class Enter final : public Op {
 public:
  std::string name() const override { return "enter"; }
  Outputs infer(const Specs& in) const override { return {Output::identity(0, in[0])}; }
  Sharing sharing() const override { return Sharing().gradient_over_output(0, 0); }
  Placement placement(const Placements& in, const std::vector<bool>&) const override {
    require(in[0] == Placement::replicated, "only replicated values enter the tensor axis");
    return Placement::partial_gradient;
  }
  void forward(Exec&) const override { throw Error("an identity never runs forward"); }
  void backward(Exec& e) const override {
    const Tensor &dx = e.grad_input(0), &dy = e.grad_output(0);
    if (dx.data != dy.data) e.stream().copy(dx, dy);
    e.group(Role::tensor).all_reduce({dx.data, dx.count(), dx.dtype}, Reduction::sum, e.stream());
  }
};
class Leave final : public Op {
 public:
  std::string name() const override { return "leave"; }
  Outputs infer(const Specs& in) const override { return {in[0]}; }
  Sharing sharing() const override {
    return Sharing().output_over_input(0, 0).gradient_passes(0, 0);
  }
  Placement placement(const Placements& in, const std::vector<bool>&) const override {
    require(in[0] == Placement::partial, "only partial values are summed over the tensor axis");
    return Placement::replicated;
  }
  void forward(Exec& e) const override {
    const Tensor &x = e.input(0), &y = e.output(0);
    if (x.data != y.data) e.stream().copy(y, x);
    e.group(Role::tensor).all_reduce({y.data, y.count(), y.dtype}, Reduction::sum, e.stream());
  }
  void backward(Exec&) const override { throw Error("never called: the gradient passes"); }
};

}  // namespace trireme::test
