// GELU in both forms, SiLU, and SwiGLU: a value and a slope each, then one loop for all.
#include "kernels/activation.h"

#include "kernels/cpu/simd/for_each_vector.h"
#include "kernels/cpu/simd/math.h"

namespace trireme::kernels::TRIREME_SIMD {
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

/// use(F{}) with the function F of `kind`.
template <class Use>
TRIREME_INLINE void with_function_of(Activation kind, Use use) {
  switch (kind) {
    case Activation::gelu_tanh:
      return use(GeluTanh{});
    case Activation::gelu_erf:
      return use(GeluErf{});
    case Activation::silu:
      return use(Silu{});
  }
}

template <class T, class F>
void forward_of(const ActivationForward& p, Index begin, Index end) {
  const T* x = static_cast<const T*>(p.x);
  T* y = static_cast<T*>(p.y);
  for_each_vector(begin, end, [=](auto at) { at.store(y, F::value(at.load(x))); });
}
template <class T, class F>
void backward_of(const ActivationBackward& p, Index begin, Index end) {
  const T* x = static_cast<const T*>(p.x);
  const T* dy = static_cast<const T*>(p.dy);
  T* dx = static_cast<T*>(p.dx);
  if (p.write == Write::assign)
    for_each_vector(begin, end, [=](auto at) { at.store(dx, at.load(dy) * F::slope(at.load(x))); });
  else
    for_each_vector(begin, end, [=](auto at) {
      at.store(dx, fma(at.load(dy), F::slope(at.load(x)), at.load(dx)));
    });
}

void forward(const ActivationForward& p, Index begin, Index end) {
  with_storage(p.dtype, [&]<class T>(T) {
    with_function_of(p.kind, [&]<class F>(F) { forward_of<T, F>(p, begin, end); });
  });
}
void backward(const ActivationBackward& p, Index begin, Index end) {
  with_storage(p.dtype, [&]<class T>(T) {
    with_function_of(p.kind, [&]<class F>(F) { backward_of<T, F>(p, begin, end); });
  });
}

template <class T>
void swiglu_forward_of(const SwigluForward& p, Index begin_row, Index end_row) {
  for (Index row = begin_row; row < end_row; ++row) {
    const T* gate = static_cast<const T*>(p.gate_up) + row * 2 * p.channels;
    const T* up = gate + p.channels;
    T* y = static_cast<T*>(p.y) + row * p.channels;
    for_each_vector(0, p.channels,
                    [=](auto at) { at.store(y, Silu::value(at.load(gate)) * at.load(up)); });
  }
}

template <class T>
void swiglu_backward_of(const SwigluBackward& p, Index begin_row, Index end_row) {
  const bool adds = p.write == Write::add;
  for (Index row = begin_row; row < end_row; ++row) {
    const T* gate = static_cast<const T*>(p.gate_up) + row * 2 * p.channels;
    const T* up = gate + p.channels;
    const T* dy = static_cast<const T*>(p.dy) + row * p.channels;
    T* dgate = static_cast<T*>(p.dgate_up) + row * 2 * p.channels;
    T* dup = dgate + p.channels;
    for_each_vector(0, p.channels, [=](auto at) {
      const Floats g = at.load(gate), u = at.load(up), d = at.load(dy);
      const Floats to_gate = d * u * Silu::slope(g), to_up = d * Silu::value(g);
      at.store(dgate, adds ? at.load(dgate) + to_gate : to_gate);
      at.store(dup, adds ? at.load(dup) + to_up : to_up);
    });
  }
}

void swiglu_forward(const SwigluForward& p, Index begin_row, Index end_row) {
  with_storage(p.dtype, [&]<class T>(T) { swiglu_forward_of<T>(p, begin_row, end_row); });
}
void swiglu_backward(const SwigluBackward& p, Index begin_row, Index end_row) {
  with_storage(p.dtype, [&]<class T>(T) { swiglu_backward_of<T>(p, begin_row, end_row); });
}

}  // namespace

}  // namespace trireme::kernels::TRIREME_SIMD

namespace trireme::kernels {

const ActivationLoops ActivationLoops::TRIREME_SIMD = {
    TRIREME_SIMD::forward, TRIREME_SIMD::backward, TRIREME_SIMD::swiglu_forward,
    TRIREME_SIMD::swiglu_backward};

}  // namespace trireme::kernels
