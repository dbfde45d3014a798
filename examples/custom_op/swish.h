// An op of one's own: its result, its gradient, and what the gradient needs, side by side.
#pragma once

#include <cmath>

#include <trireme/trireme.h>

/// y = x * sigmoid(beta * x), elementwise; x: f32, any shape, packed.
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
    for_each(e, [&](trireme::Index i) { y[i] = x[i] * gate(x[i]); });
  }
  void backward(trireme::Exec& e) const override {
    const float* x = e.input(0).as<float>();
    const float* dy = e.grad_output(0).as<float>();
    float* dx = e.grad_input(0).as<float>();
    for_each(e, [&](trireme::Index i) {
      const float g = gate(x[i]);
      dx[i] = dy[i] * (g + beta_ * x[i] * g * (1 - g));
    });
  }

 private:
  float gate(float x) const { return 1 / (1 + std::exp(-beta_ * x)); }

  /// On the threads of the rank, in pieces that are worth a thread.
  template <class F>
  static void for_each(trireme::Exec& e, F&& f) {
    trireme::parallel_for(e.stream(), e.input(0).count(), 4096,
                          [&](trireme::Index begin, trireme::Index end) {
                            for (trireme::Index i = begin; i < end; ++i) f(i);
                          });
  }

  float beta_;
};

inline trireme::Value swish(trireme::Value x, float beta) { return x.apply<Swish>(beta); }
