// Loops over arrays of float or Bf16, sixteen elements at a time, computed in fp32; the last step
// handles what is left with the same arithmetic. A Bf16 that is stored is rounded once, to nearest.
#pragma once

#include "kernels/cpu/simd/vec.h"

namespace trireme::kernels::TRIREME_SIMD {
namespace {

/// Sixteen elements from i on, or the `n` that are left of them. The last lanes of a row are
/// computed like all others, so a result never depends on the position of its element in a call.
struct Whole {
  Index i;
  template <class Stored>
  TRIREME_INLINE Floats load(const Stored* p, float = 0) const {
    return TRIREME_SIMD::load(p + i);
  }
  template <class Stored>
  TRIREME_INLINE void store(Stored* p, Floats v) const {
    TRIREME_SIMD::store(p + i, v);
  }
  TRIREME_INLINE Floats mask(Floats v) const { return v; }
};
struct Part {
  Index i, n;
  template <class Stored>
  TRIREME_INLINE Floats load(const Stored* p, float rest = 0) const {
    return TRIREME_SIMD::load(p + i, n, rest);
  }
  template <class Stored>
  TRIREME_INLINE void store(Stored* p, Floats v) const {
    TRIREME_SIMD::store(p + i, v, n);
  }
  /// Zeros in lanes that do not exist.
  TRIREME_INLINE Floats mask(Floats v) const {
    float buffer[lanes];
    TRIREME_SIMD::store(buffer, v);
    return TRIREME_SIMD::load(buffer, n, 0);
  }
};

/// f(T{}) with T, the type that holds `dtype` in memory: float or Bf16 (launchers admit no other).
template <class F>
TRIREME_INLINE void with_storage(DType dtype, F f) {
  if (dtype == DType::bf16)
    f(Bf16{});
  else
    f(float{});
}

/// f(at) for [begin, end), sixteen elements at a time.
template <class F>
TRIREME_INLINE void for_each_vector(Index begin, Index end, F f) {
  Index i = begin;
  for (; i + lanes <= end; i += lanes) f(Whole{i});
  if (i < end) f(Part{i, end - i});
}

/// Sum over [0, count) of f(at), in an order that depends on `count` only. f masks what it makes of
/// missing lanes.
template <class F>
TRIREME_INLINE float sum(Index count, F f) {
  Floats a = all(0), b = a, c = a, d = a;
  Index i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    a = a + f(Whole{i});
    b = b + f(Whole{i + lanes});
    c = c + f(Whole{i + 2 * lanes});
    d = d + f(Whole{i + 3 * lanes});
  }
  for_each_vector(i, count, [&](auto at) { a = a + f(at); });
  return sum_lanes((a + b) + (c + d));
}

}  // namespace
}  // namespace trireme::kernels::TRIREME_SIMD
