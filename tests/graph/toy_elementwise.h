// Toy ops: elementwise ones, with every kind of permission. f32, plain loops.
#pragma once

#include <cmath>

#include "trireme/graph/graph.h"

#include "tests/graph/test_device.h"

namespace trireme::test {

/// Elementwise ops of packed tensors of one shape.
class Elementwise : public Op {
 public:
  Outputs infer(const Specs& in) const override {
    for (const Spec& spec : in) require(spec.shape == in[0].shape, "shapes differ");
    return {in[0]};
  }
};

class Mul final : public Elementwise {
 public:
  std::string name() const override { return "mul"; }
  Saved saved(const BackwardWork&) const override { return Saved::input(0) | Saved::input(1); }
  Sharing sharing() const override {
    return Sharing()
        .output_over_input(0, 0)
        .output_over_input(0, 1)
        .gradient_over_output(0, 0)
        .gradient_over_input(1, 1)
        .gradient_over_input(1, 0);
  }
  void forward(Exec& e) const override {
    const float *a = e.input(0).as<float>(), *b = e.input(1).as<float>();
    float* y = e.output(0).as<float>();
    for (Index i = 0; i < e.output(0).count(); ++i) y[i] = a[i] * b[i];
  }
  void backward(Exec& e) const override {
    const float *a = e.input(0).as<float>(), *b = e.input(1).as<float>();
    const float* dy = e.grad_output(0).as<float>();
    float* da = e.wants(0) ? e.grad_input(0).as<float>() : nullptr;
    float* db = e.wants(1) ? e.grad_input(1).as<float>() : nullptr;
    for (Index i = 0; i < e.input(0).count(); ++i) {
      const float d = dy[i], ga = d * b[i], gb = d * a[i];
      if (da) da[i] = ga;
      if (db) db[i] = gb;
    }
  }
};

class Add final : public Elementwise {
 public:
  std::string name() const override { return "add"; }
  Sharing sharing() const override {
    return Sharing()
        .output_over_input(0, 0)
        .output_over_input(0, 1)
        .gradient_passes(0, 0)
        .gradient_passes(1, 0);
  }
  void forward(Exec& e) const override {
    const float *a = e.input(0).as<float>(), *b = e.input(1).as<float>();
    float* y = e.output(0).as<float>();
    for (Index i = 0; i < e.output(0).count(); ++i) y[i] = a[i] + b[i];
  }
  void backward(Exec&) const override { throw Error("never called: both gradients pass"); }
};

class Tanh final : public Elementwise {
 public:
  std::string name() const override { return "tanh"; }
  Saved saved(const BackwardWork&) const override { return Saved::output(0); }
  Sharing sharing() const override {
    return Sharing().output_over_input(0, 0).gradient_over_output(0, 0);
  }
  void forward(Exec& e) const override {
    const float* x = e.input(0).as<float>();
    float* y = e.output(0).as<float>();
    for (Index i = 0; i < e.output(0).count(); ++i) y[i] = std::tanh(x[i]);
  }
  void backward(Exec& e) const override {
    const float *y = e.output(0).as<float>(), *dy = e.grad_output(0).as<float>();
    float* dx = e.grad_input(0).as<float>();
    for (Index i = 0; i < e.output(0).count(); ++i) dx[i] = dy[i] * (1 - y[i] * y[i]);
  }
};

/// y = x^2 / 2, which can add to its gradient.
class HalfSquare final : public Elementwise {
 public:
  std::string name() const override { return "half_square"; }
  Saved saved(const BackwardWork&) const override { return Saved::input(0); }
  bool accumulates(int) const override { return true; }
  Sharing sharing() const override { return Sharing().gradient_over_input(0, 0); }
  void forward(Exec& e) const override {
    const float* x = e.input(0).as<float>();
    for (Index i = 0; i < e.input(0).count(); ++i) e.output(0).as<float>()[i] = x[i] * x[i] / 2;
  }
  void backward(Exec& e) const override {
    const float *x = e.input(0).as<float>(), *dy = e.grad_output(0).as<float>();
    float* dx = e.grad_input(0).as<float>();
    for (Index i = 0; i < e.input(0).count(); ++i)
      dx[i] = e.accumulate(0) ? dx[i] + dy[i] * x[i] : dy[i] * x[i];
  }
};

/// Two results of one input; backward reads both gradients.
class SinCos final : public Op {
 public:
  std::string name() const override { return "sin_cos"; }
  Outputs infer(const Specs& in) const override { return {in[0], in[0]}; }
  Saved saved(const BackwardWork&) const override { return Saved::output(0) | Saved::output(1); }
  Sharing sharing() const override {
    return Sharing().output_over_input(0, 0).output_over_input(1, 0).gradient_over_output(0, 1);
  }
  void forward(Exec& e) const override {
    for (Index i = 0; i < e.input(0).count(); ++i) {
      const float x = e.input(0).as<float>()[i];
      e.output(0).as<float>()[i] = std::sin(x);
      e.output(1).as<float>()[i] = std::cos(x);
    }
  }
  void backward(Exec& e) const override {
    for (Index i = 0; i < e.output(0).count(); ++i) {
      const float s = e.output(0).as<float>()[i], c = e.output(1).as<float>()[i];
      const float ds = e.grad_output(0).as<float>()[i], dc = e.grad_output(1).as<float>()[i];
      e.grad_input(0).as<float>()[i] = ds * c - dc * s;
    }
  }
};

}  // namespace trireme::test
