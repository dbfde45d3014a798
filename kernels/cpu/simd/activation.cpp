// GELU in both forms, SiLU, and SwiGLU: a value and a slope each, then one loop for all.
#include "kernels/cpu/loops.h"
#include "kernels/cpu/simd/each.h"
#include "kernels/cpu/simd/math.h"

namespace trireme::TRIREME_SIMD {
namespace {

// x sigmoid(u(x)). With u(x) = 2 sqrt(2 / pi) (x + 0.044715 x^3) it equals x (1 + tanh(u / 2)) / 2.
struct GeluTanh {
  static constexpr float c1 = 1.5957691216057308f, c3 = c1 * 0.044715f;
  static TRIREME_INLINE Floats value(Floats x) {
    return x * sigmoid(x * fma(x * x, all(c3), all(c1)));
  }
  static TRIREME_INLINE Floats slope(Floats x) {
    const Floats square = x * x;
    const Logistic s = logistic(x * fma(square, all(c3), all(c1)));
    const Floats du = fma(square, all(3 * c3), all(c1));
    return fma(x * du, s.below * s.above, s.below);
  }
};

struct GeluErf {
  static TRIREME_INLINE Floats value(Floats x) { return x * normal(x).below; }
  static TRIREME_INLINE Floats slope(Floats x) {
    const Normal n = normal(x);
    return fma(x * all(0.39894228040143268f), n.density, n.below);
  }
};

struct Silu {
  static TRIREME_INLINE Floats value(Floats x) { return x * sigmoid(x); }
  static TRIREME_INLINE Floats slope(Floats x) {
    const Logistic s = logistic(x);
    return fma(x, s.below * s.above, s.below);
  }
};

template <class F>
void forward_of(const ActivationForward& p, Index begin, Index end) {
  each(begin, end, [&](auto at) { at.store(p.y, F::value(at.load(p.x))); });
}
template <class F>
void backward_of(const ActivationBackward& p, Index begin, Index end) {
  if (p.write == Write::assign)
    each(begin, end, [&](auto at) { at.store(p.dx, at.load(p.dy) * F::slope(at.load(p.x))); });
  else
    each(begin, end, [&](auto at) {
      at.store(p.dx, fma(at.load(p.dy), F::slope(at.load(p.x)), at.load(p.dx)));
    });
}

void forward(const ActivationForward& p, Index begin, Index end) {
  switch (p.kind) {
    case Activation::gelu_tanh:
      return forward_of<GeluTanh>(p, begin, end);
    case Activation::gelu_erf:
      return forward_of<GeluErf>(p, begin, end);
    case Activation::silu:
      return forward_of<Silu>(p, begin, end);
  }
}
void backward(const ActivationBackward& p, Index begin, Index end) {
  switch (p.kind) {
    case Activation::gelu_tanh:
      return backward_of<GeluTanh>(p, begin, end);
    case Activation::gelu_erf:
      return backward_of<GeluErf>(p, begin, end);
    case Activation::silu:
      return backward_of<Silu>(p, begin, end);
  }
}

void swiglu_forward(const SwigluForward& p, Index begin_row, Index end_row) {
  for (Index row = begin_row; row < end_row; ++row) {
    const float* gate = p.gate_up + row * 2 * p.channels;
    const float* up = gate + p.channels;
    float* y = p.y + row * p.channels;
    each(0, p.channels, [=](auto at) { at.store(y, Silu::value(at.load(gate)) * at.load(up)); });
  }
}

void swiglu_backward(const SwigluBackward& p, Index begin_row, Index end_row) {
  const bool adds = p.write == Write::add;
  for (Index row = begin_row; row < end_row; ++row) {
    const float* gate = p.gate_up + row * 2 * p.channels;
    const float* up = gate + p.channels;
    const float* dy = p.dy + row * p.channels;
    float* dgate = p.dgate_up + row * 2 * p.channels;
    float* dup = dgate + p.channels;
    each(0, p.channels, [=](auto at) {
      const Floats g = at.load(gate), u = at.load(up), d = at.load(dy);
      const Floats to_gate = d * u * Silu::slope(g), to_up = d * Silu::value(g);
      at.store(dgate, adds ? at.load(dgate) + to_gate : to_gate);
      at.store(dup, adds ? at.load(dup) + to_up : to_up);
    });
  }
}

}  // namespace

extern const ActivationLoops activation_loops;
const ActivationLoops activation_loops = {forward, backward, swiglu_forward, swiglu_backward};

}  // namespace trireme::TRIREME_SIMD
