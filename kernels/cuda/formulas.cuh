// Functions of one and of two numbers over flat arrays, for gpu::map. F has value(x), or value(a,
// b), and for gradients slope(x); slope() where the slope is a constant.
#pragma once

#include "kernels/cuda/map.cuh"

namespace trireme::kernels::gpu {

/// y = f(x). x, y: (count).
template <class T, class F>
struct ValuesOf {
  static constexpr int pack = Pack<T>::size;
  F f;
  const T* x;
  T* y;
  template <int width>
  __device__ void at(Index i) const {
    Vec<float, width> v = load_floats<width>(x + i);
    for (int k = 0; k < width; ++k) v.values[k] = f.value(v.values[k]);
    store_floats(y + i, v);
  }
};

/// dx = (or +=) dy * slope. saved, dy, dx: (count); `saved` is not read if the slope is a constant.
template <class T, class F>
struct SlopesOf {
  static constexpr int pack = Pack<T>::size;
  F f;
  const T *saved, *dy;
  T* dx;
  Write write;
  template <int width>
  __device__ void at(Index i) const {
    Vec<float, width> d = load_floats<width>(dy + i);
    if constexpr (requires { f.slope(); }) {
      for (int k = 0; k < width; ++k) d.values[k] *= f.slope();
    } else {
      const Vec<float, width> s = load_floats<width>(saved + i);
      for (int k = 0; k < width; ++k) d.values[k] *= f.slope(s.values[k]);
    }
    write_floats(dx + i, d, write);
  }
};

/// y = f(a, b). a, b, y: (count).
template <class T, class F>
struct ValuesOfPairs {
  static constexpr int pack = Pack<T>::size;
  F f;
  const T *a, *b;
  T* y;
  template <int width>
  __device__ void at(Index i) const {
    Vec<float, width> p = load_floats<width>(a + i);
    const Vec<float, width> q = load_floats<width>(b + i);
    for (int k = 0; k < width; ++k) p.values[k] = f.value(p.values[k], q.values[k]);
    store_floats(y + i, p);
  }
};

}  // namespace trireme::kernels::gpu
