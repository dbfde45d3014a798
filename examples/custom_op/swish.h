// An op of one's own: its result, its gradient, and what the gradient needs, side by side.
#pragma once

#include <trireme/trireme.h>

#include "swish_formula.h"
#include "swish_on_gpu.h"

/// y = x * sigmoid(beta * x), elementwise; x: f32, any shape, packed. With --bf16 it is refused by name while tracing: an op
/// that works in bf16 too says so (Op::works_in).
class Swish final : public trireme::Op {
 public:
  explicit Swish(float beta) : beta_(beta) {}
  std::string name() const override { return "swish"; }
  trireme::Outputs infer(const trireme::Specs& in) const override {
    return {trireme::Spec(in.at(0).shape)};
  }
  trireme::Saved saved() const override {
    return trireme::Saved::input(0);
  }  // backward reads x, never y
  double flops(const trireme::Specs& in) const override {
    return 5.0 * static_cast<double>(in.at(0).shape.count());
  }

  void forward(trireme::Exec& e) const override {
    const float* x = e.input(0).as<float>();
    float* y = e.output(0).as<float>();
    if (on_gpu(e)) return swish_forward_on_gpu(e.stream().native(), x, y, count(e), beta_);
    for_each(e, [&](trireme::Index i) { y[i] = swish_value(x[i], beta_); });
  }
  void backward(trireme::Exec& e) const override {
    const float* x = e.input(0).as<float>();
    const float* dy = e.grad_output(0).as<float>();
    float* dx = e.grad_input(0).as<float>();
    if (on_gpu(e)) return swish_backward_on_gpu(e.stream().native(), x, dy, dx, count(e), beta_);
    for_each(e, [&](trireme::Index i) { dx[i] = dy[i] * swish_slope(x[i], beta_); });
  }

 private:
  static bool on_gpu(trireme::Exec& e) {
    return e.stream().device().kind() == trireme::DeviceKind::cuda;
  }
  static trireme::Index count(trireme::Exec& e) { return e.input(0).count(); }

  /// On the threads of the rank, in pieces that are worth a thread.
  template <class F>
  static void for_each(trireme::Exec& e, F&& f) {
    trireme::parallel_for(e.stream(), count(e), 4096,
                          [&](trireme::Index begin, trireme::Index end) {
                            for (trireme::Index i = begin; i < end; ++i) f(i);
                          });
  }

  float beta_;
};

inline trireme::Value swish(trireme::Value x, float beta) { return x.apply<Swish>(beta); }
