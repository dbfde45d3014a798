// GELU in both forms, SiLU, and SwiGLU: a value and a slope each, over flat arrays.
#include "kernels/activation.h"
#include "kernels/cuda/formulas.cuh"

namespace trireme::kernels {
namespace gpu {

// ---------------------------------------- formulas -----------------------------------------------

/// sigmoid(x) and 1 - sigmoid(x), both accurate where they are small.
struct Logistic {
  float below, above;
};
__device__ __forceinline__ Logistic logistic(float x) {
  const float e = expf(-x), below = __fdividef(1.0f, 1.0f + e);
  return {below, x > 0 ? e * below : 1.0f - below};
}

/// x sigmoid(u(x)). With u(x) = 2 sqrt(2 / pi) (x + 0.044715 x^3) it equals x (1 + tanh(u / 2))
/// / 2.
struct GeluTanh {
  static constexpr float c1 = 1.5957691216057308f, c3 = c1 * 0.044715f;
  __device__ float value(float x) const { return x * logistic(x * (x * x * c3 + c1)).below; }
  __device__ float slope(float x) const {
    const float square = x * x;
    const Logistic s = logistic(x * (square * c3 + c1));
    return x * (square * (3 * c3) + c1) * (s.below * s.above) + s.below;
  }
};

struct GeluErf {
  static constexpr float sqrt_half = 0.70710678118654752f, density_at_0 = 0.39894228040143268f;
  /// P(X < x) of the normal distribution; accurate where it is small.
  static __device__ float below(float x) { return 0.5f * erfcf(-x * sqrt_half); }
  __device__ float value(float x) const { return x * below(x); }
  __device__ float slope(float x) const {
    return x * density_at_0 * expf(-0.5f * x * x) + below(x);
  }
};

struct Silu {
  __device__ float value(float x) const { return x * logistic(x).below; }
  __device__ float slope(float x) const {
    const Logistic s = logistic(x);
    return x * (s.below * s.above) + s.below;
  }
};

// ---------------------------------------- kernels ------------------------------------------------

/// gate_up: (rows, 2 channels), y: (rows, channels). i counts elements of y; its gate is in the
/// first half of the row, up in the second.
template <class T>
struct Swiglu {
  static constexpr int pack = Pack<T>::size;
  Index channels;
  const T* gate_up;
  T* y;
  template <int width>
  __device__ void at(Index i) const {
    const T* gate = gate_up + i + i / channels * channels;
    Vec<float, width> v = load_floats<width>(gate);
    const Vec<float, width> up = load_floats<width>(gate + channels);
    for (int k = 0; k < width; ++k) v.values[k] = Silu().value(v.values[k]) * up.values[k];
    store_floats(y + i, v);
  }
};

/// gate_up, dgate_up: (rows, 2 channels), dy: (rows, channels). i counts elements of dy.
template <class T>
struct SwigluGradient {
  static constexpr int pack = Pack<T>::size;
  Index channels;
  const T *gate_up, *dy;
  T* dgate_up;
  Write write;
  template <int width>
  __device__ void at(Index i) const {
    const Index gate = i + i / channels * channels, up = gate + channels;
    Vec<float, width> g = load_floats<width>(gate_up + gate);
    Vec<float, width> u = load_floats<width>(gate_up + up);
    const Vec<float, width> d = load_floats<width>(dy + i);
    for (int k = 0; k < width; ++k) {
      const float x = g.values[k];
      const Logistic s = logistic(x);
      g.values[k] = d.values[k] * u.values[k] * (x * (s.below * s.above) + s.below);
      u.values[k] = d.values[k] * x * s.below;
    }
    write_floats(dgate_up + gate, g, write);
    write_floats(dgate_up + up, u, write);
  }
};

}  // namespace gpu

namespace {

// ---------------------------------------- launchers ----------------------------------------------

/// run(function) with the function of `kind`.
template <class Run>
void with_function_of(Activation kind, const Run& run) {
  switch (kind) {
    case Activation::gelu_tanh:
      return run(gpu::GeluTanh{});
    case Activation::gelu_erf:
      return run(gpu::GeluErf{});
    case Activation::silu:
      return run(gpu::Silu{});
  }
}

void forward(Stream& stream, const ActivationForward& p) {
  check_activation(p);
  const bool aligned = gpu::all_aligned(p.x, p.y);
  gpu::with_storage(p.dtype, [&]<class T>(T) {
    with_function_of(p.kind, [&]<class F>(F f) {
      const gpu::ValuesOf<T, F> values{f, static_cast<const T*>(p.x), static_cast<T*>(p.y)};
      gpu::map(stream, values, p.count, aligned, "activation");
    });
  });
}

void backward(Stream& stream, const ActivationBackward& p) {
  check_activation(p);
  const bool aligned = gpu::all_aligned(p.x, p.dy, p.dx);
  gpu::with_storage(p.dtype, [&]<class T>(T) {
    with_function_of(p.kind, [&]<class F>(F f) {
      const gpu::SlopesOf<T, F> slopes{f, static_cast<const T*>(p.x), static_cast<const T*>(p.dy),
                                       static_cast<T*>(p.dx), p.write};
      gpu::map(stream, slopes, p.count, aligned, "activation gradient");
    });
  });
}

void swiglu_forward(Stream& stream, const SwigluForward& p) {
  check_activation(p);
  gpu::with_storage(p.dtype, [&]<class T>(T) {
    using F = gpu::Swiglu<T>;
    const bool aligned = p.channels % F::pack == 0 && gpu::all_aligned(p.gate_up, p.y);
    const F f{p.channels, static_cast<const T*>(p.gate_up), static_cast<T*>(p.y)};
    gpu::map(stream, f, p.rows * p.channels, aligned, "swiglu");
  });
}

void swiglu_backward(Stream& stream, const SwigluBackward& p) {
  check_activation(p);
  gpu::with_storage(p.dtype, [&]<class T>(T) {
    using F = gpu::SwigluGradient<T>;
    const bool aligned = p.channels % F::pack == 0 && gpu::all_aligned(p.gate_up, p.dy, p.dgate_up);
    const F f{p.channels, static_cast<const T*>(p.gate_up), static_cast<const T*>(p.dy),
              static_cast<T*>(p.dgate_up), p.write};
    gpu::map(stream, f, p.rows * p.channels, aligned, "swiglu gradient");
  });
}

}  // namespace

const ActivationKernels& cuda_table(const ActivationKernels*) {
  static constexpr ActivationKernels kernels = {forward, backward, swiglu_forward, swiglu_backward};
  return kernels;
}

}  // namespace trireme::kernels
