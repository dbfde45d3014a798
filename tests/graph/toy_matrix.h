// Toy ops: a matrix product, and a norm with a side output and a workspace.
#pragma once

#include <cmath>

#include "trireme/graph/graph.h"

#include "tests/graph/test_device.h"

namespace trireme::test {

/// y = x w^T; x: (rows, in), w: (out, in). Adds to the gradient of w, only assigns that of x.
class Linear final : public Op {
 public:
  std::string name() const override { return "linear"; }
  Outputs infer(const Specs& in) const override {
    require(in.size() == 2 && in[0].shape.dims() == 2 && in[1].shape.dims() == 2 &&
                in[0].shape[1] == in[1].shape[1],
            "x and w have to be (rows, in) and (out, in)");
    return {Spec{in[0].shape[0], in[1].shape[0]}};
  }
  Saved saved(const BackwardWork&) const override { return Saved::input(0) | Saved::input(1); }
  bool accumulates(int i) const override { return i == 1; }
  double flops(const Specs& in) const override {
    return 2.0 * static_cast<double>(in[0].shape.count() * in[1].shape[0]);
  }
  void forward(Exec& e) const override {
    const auto [rows, in, out] = sizes(e.input(0), e.input(1));
    const float *x = e.input(0).as<float>(), *w = e.input(1).as<float>();
    float* y = e.output(0).as<float>();
    for (Index r = 0; r < rows; ++r)
      for (Index o = 0; o < out; ++o) {
        float sum = 0;
        for (Index i = 0; i < in; ++i) sum += x[r * in + i] * w[o * in + i];
        y[r * out + o] = sum;
      }
  }
  void backward(Exec& e) const override {
    const auto [rows, in, out] = sizes(e.input(0), e.input(1));
    const float *x = e.input(0).as<float>(), *w = e.input(1).as<float>();
    const float* dy = e.grad_output(0).as<float>();
    if (e.wants(0)) {
      float* dx = e.grad_input(0).as<float>();
      for (Index r = 0; r < rows; ++r)
        for (Index i = 0; i < in; ++i) {
          float sum = 0;
          for (Index o = 0; o < out; ++o) sum += dy[r * out + o] * w[o * in + i];
          dx[r * in + i] = sum;
        }
    }
    if (!e.wants(1)) return;
    float* dw = e.grad_input(1).as<float>();
    for (Index o = 0; o < out; ++o)
      for (Index i = 0; i < in; ++i) {
        float sum = 0;
        for (Index r = 0; r < rows; ++r) sum += dy[r * out + o] * x[r * in + i];
        dw[o * in + i] = e.accumulate(1) ? dw[o * in + i] + sum : sum;
      }
  }

 private:
  struct Sizes {
    Index rows, in, out;
  };
  static Sizes sizes(const Tensor& x, const Tensor& w) {
    return {x.shape[0], x.shape[1], w.shape[0]};
  }
};

/// y = x / rms(x) * w with the inverse rms as a side output and the row product in a workspace; x:
/// (rows, n), w: (n).
class RmsNorm final : public Op {
 public:
  std::string name() const override { return "rms_norm"; }
  Outputs infer(const Specs& in) const override {
    require(in[1].shape == Shape{in[0].shape.back()}, "the scale has to have ", in[0].shape.back(),
            " elements");
    return {in[0], Output::side(Spec{in[0].shape.rows()})};
  }
  Saved saved(const BackwardWork&) const override {
    return Saved::input(0) | Saved::input(1) | Saved::output(1);
  }
  bool accumulates(int i) const override { return i == 1; }
  Index backward_workspace_bytes(const Specs& in) const override { return 4 * in[0].shape.back(); }
  void forward(Exec& e) const override {
    const Index n = e.input(0).shape.back();
    for (Index r = 0; r < e.input(0).shape.rows(); ++r) {
      const float *x = e.input(0).as<float>() + r * n, *w = e.input(1).as<float>();
      float sum = 1e-5f;
      for (Index i = 0; i < n; ++i) sum += x[i] * x[i] / static_cast<float>(n);
      const float inverse = 1 / std::sqrt(sum);
      e.output(1).as<float>()[r] = inverse;
      for (Index i = 0; i < n; ++i) e.output(0).as<float>()[r * n + i] = x[i] * inverse * w[i];
    }
  }
  void backward(Exec& e) const override {
    const Index n = e.input(0).shape.back(), rows = e.input(0).shape.rows();
    const float *w = e.input(1).as<float>(), *inverse = e.output(1).as<float>();
    float* dw = static_cast<float*>(e.workspace());
    for (Index i = 0; i < n; ++i) dw[i] = 0;
    for (Index r = 0; r < rows; ++r) {
      const float *x = e.input(0).as<float>() + r * n, *dy = e.grad_output(0).as<float>() + r * n;
      float dot = 0;
      for (Index i = 0; i < n; ++i) {
        dot += dy[i] * w[i] * x[i];
        dw[i] += dy[i] * x[i] * inverse[r];
      }
      dot *= inverse[r] * inverse[r] * inverse[r] / static_cast<float>(n);
      if (e.wants(0))
        for (Index i = 0; i < n; ++i)
          e.grad_input(0).as<float>()[r * n + i] = dy[i] * w[i] * inverse[r] - x[i] * dot;
    }
    if (e.wants(1))
      for (Index i = 0; i < n; ++i)
        e.grad_input(1).as<float>()[i] =
            e.accumulate(1) ? e.grad_input(1).as<float>()[i] + dw[i] : dw[i];
  }
};

}  // namespace trireme::test
