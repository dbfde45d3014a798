// Floats: sixteen fp32 lanes on every instruction set (one AVX-512 register, two of AVX2, four of
// SSE), so that sums over lanes have one order everywhere. Only for cpu/simd/*.cpp, which are
// compiled once per instruction set: everything here is internal to the file that includes it, and
// no function of the standard library is called.
#pragma once

#include <cstdint>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "trireme/core/dtype.h"

#define TRIREME_INLINE __attribute__((always_inline)) inline

namespace trireme::TRIREME_SIMD {
namespace {

#if defined(__AVX512F__)
constexpr int register_bytes = 64;
#elif defined(__AVX2__)
constexpr int register_bytes = 32;
#else
constexpr int register_bytes = 16;
#endif
constexpr int register_lanes = register_bytes / 4;
constexpr Index lanes = 16;

// One hardware register.
typedef float FloatRegister __attribute__((vector_size(register_bytes)));
typedef std::int32_t IntRegister __attribute__((vector_size(register_bytes)));
typedef float UnalignedFloats __attribute__((vector_size(register_bytes), aligned(4), may_alias));

/// Two of something, with the operators of one.
template <class T>
struct Pair {
  T lo, hi;
};
#if defined(__AVX512F__)
using Floats = FloatRegister;
using Ints = IntRegister;
#elif defined(__AVX2__)
using Floats = Pair<FloatRegister>;
using Ints = Pair<IntRegister>;
#else
using Floats = Pair<Pair<FloatRegister>>;
using Ints = Pair<Pair<IntRegister>>;
#endif

template <class T>
TRIREME_INLINE Pair<T> operator+(Pair<T> a, Pair<T> b) {
  return {a.lo + b.lo, a.hi + b.hi};
}
template <class T>
TRIREME_INLINE Pair<T> operator-(Pair<T> a, Pair<T> b) {
  return {a.lo - b.lo, a.hi - b.hi};
}
template <class T>
TRIREME_INLINE Pair<T> operator*(Pair<T> a, Pair<T> b) {
  return {a.lo * b.lo, a.hi * b.hi};
}
template <class T>
TRIREME_INLINE Pair<T> operator/(Pair<T> a, Pair<T> b) {
  return {a.lo / b.lo, a.hi / b.hi};
}
template <class T>
TRIREME_INLINE Pair<T> operator-(Pair<T> a) {
  return {-a.lo, -a.hi};
}
template <class T>
TRIREME_INLINE auto operator<(Pair<T> a, Pair<T> b) -> Pair<decltype(a.lo < b.lo)> {
  return {a.lo < b.lo, a.hi < b.hi};
}
template <class T>
TRIREME_INLINE Pair<T> operator&(Pair<T> a, Pair<T> b) {
  return {a.lo & b.lo, a.hi & b.hi};
}
template <class T>
TRIREME_INLINE Pair<T> operator<<(Pair<T> a, int bits) {
  return {a.lo << bits, a.hi << bits};
}

/// a * b + c; rounded once where the instruction set can, so contraction is never left to the
/// compiler.
TRIREME_INLINE FloatRegister fma(FloatRegister a, FloatRegister b, FloatRegister c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(a, b, c);
#elif defined(__AVX2__)
  return _mm256_fmadd_ps(a, b, c);
#else
  return a * b + c;
#endif
}
/// The larger lane; b where a lane of either is not a number.
TRIREME_INLINE FloatRegister max(FloatRegister a, FloatRegister b) {
#if defined(__AVX512F__)
  return _mm512_mask_max_ps(a, 0xffff, a, b);  // gcc 12 warns of the form without a mask
#elif defined(__AVX2__)
  return _mm256_max_ps(a, b);
#else
  return a > b ? a : b;
#endif
}
/// The smaller lane; b where a lane of either is not a number.
TRIREME_INLINE FloatRegister min(FloatRegister a, FloatRegister b) {
#if defined(__AVX512F__)
  return _mm512_mask_min_ps(a, 0xffff, a, b);
#elif defined(__AVX2__)
  return _mm256_min_ps(a, b);
#else
  return a < b ? a : b;
#endif
}
TRIREME_INLINE FloatRegister sqrt(FloatRegister a) {
#if defined(__AVX512F__)
  return _mm512_mask_sqrt_ps(a, 0xffff, a);
#elif defined(__AVX2__)
  return _mm256_sqrt_ps(a);
#else
  for (int i = 0; i < register_lanes; ++i) a[i] = __builtin_sqrtf(a[i]);
  return a;
#endif
}
TRIREME_INLINE FloatRegister select(IntRegister mask, FloatRegister a, FloatRegister b) {
  return mask ? a : b;
}
TRIREME_INLINE IntRegister bits(FloatRegister a) { return (IntRegister)a; }
TRIREME_INLINE FloatRegister from_bits(IntRegister a) { return (FloatRegister)a; }
TRIREME_INLINE FloatRegister to_float(IntRegister a) {
  return __builtin_convertvector(a, FloatRegister);
}

template <class T>
TRIREME_INLINE Pair<T> fma(Pair<T> a, Pair<T> b, Pair<T> c) {
  return {fma(a.lo, b.lo, c.lo), fma(a.hi, b.hi, c.hi)};
}
template <class T>
TRIREME_INLINE Pair<T> max(Pair<T> a, Pair<T> b) {
  return {max(a.lo, b.lo), max(a.hi, b.hi)};
}
template <class T>
TRIREME_INLINE Pair<T> min(Pair<T> a, Pair<T> b) {
  return {min(a.lo, b.lo), min(a.hi, b.hi)};
}
template <class T>
TRIREME_INLINE Pair<T> sqrt(Pair<T> a) {
  return {sqrt(a.lo), sqrt(a.hi)};
}
template <class M, class T>
TRIREME_INLINE Pair<T> select(Pair<M> mask, Pair<T> a, Pair<T> b) {
  return {select(mask.lo, a.lo, b.lo), select(mask.hi, a.hi, b.hi)};
}
template <class T>
TRIREME_INLINE auto bits(Pair<T> a) -> Pair<decltype(bits(a.lo))> {
  return {bits(a.lo), bits(a.hi)};
}
template <class T>
TRIREME_INLINE auto from_bits(Pair<T> a) -> Pair<decltype(from_bits(a.lo))> {
  return {from_bits(a.lo), from_bits(a.hi)};
}

/// How lanes are filled from, and written to, memory and scalars.
template <class T>
struct Lanes {
  static TRIREME_INLINE T fill(float x) { return x - T{}; }
  static TRIREME_INLINE T load(const float* p) {
    return *reinterpret_cast<const UnalignedFloats*>(p);
  }
  static TRIREME_INLINE void store(float* p, T v) { *reinterpret_cast<UnalignedFloats*>(p) = v; }
  static constexpr Index count = register_lanes;
};
template <class T>
struct Lanes<Pair<T>> {
  using Half = Lanes<T>;
  static TRIREME_INLINE Pair<T> fill(float x) { return {Half::fill(x), Half::fill(x)}; }
  static TRIREME_INLINE Pair<T> load(const float* p) {
    return {Half::load(p), Half::load(p + Half::count)};
  }
  static TRIREME_INLINE void store(float* p, Pair<T> v) {
    Half::store(p, v.lo);
    Half::store(p + Half::count, v.hi);
  }
  static constexpr Index count = 2 * Half::count;
};
static_assert(Lanes<Floats>::count == lanes);

TRIREME_INLINE Floats all(float x) { return Lanes<Floats>::fill(x); }
TRIREME_INLINE Ints all_bits(std::int32_t x) { return bits(all(__builtin_bit_cast(float, x))); }
TRIREME_INLINE Floats load(const float* p) { return Lanes<Floats>::load(p); }
TRIREME_INLINE void store(float* p, Floats v) { Lanes<Floats>::store(p, v); }
/// The first n lanes; `rest` in the others.
TRIREME_INLINE Floats load(const float* p, Index n, float rest) {
#if defined(__AVX512F__)
  return _mm512_mask_loadu_ps(all(rest), static_cast<__mmask16>((1u << n) - 1u), p);
#else
  float buffer[lanes];
  store(buffer, all(rest));
  for (Index i = 0; i < n; ++i) buffer[i] = p[i];
  return load(buffer);
#endif
}
TRIREME_INLINE void store(float* p, Floats v, Index n) {
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << n) - 1u), v);
#else
  float buffer[lanes];
  store(buffer, v);
  for (Index i = 0; i < n; ++i) p[i] = buffer[i];
#endif
}

/// combine(a, b) over sixteen lanes: lane i with lane i + 8, then + 4, + 2, + 1.
template <class F>
TRIREME_INLINE float reduce_lanes(FloatRegister v, F combine) {
#if defined(__AVX512F__)
  const auto half = combine(__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7),
                            __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15));
#else
  const auto half = v;
#endif
#if defined(__AVX2__)
  const auto w = combine(__builtin_shufflevector(half, half, 0, 1, 2, 3),
                         __builtin_shufflevector(half, half, 4, 5, 6, 7));
#else
  const auto w = half;
#endif
  const auto pairs = combine(w, __builtin_shufflevector(w, w, 2, 3, 2, 3));
  return combine(pairs, __builtin_shufflevector(pairs, pairs, 1, 1, 1, 1))[0];
}
template <class T, class F>
TRIREME_INLINE float reduce_lanes(Pair<T> v, F combine) {
  return reduce_lanes(combine(v.lo, v.hi), combine);
}
TRIREME_INLINE float sum_lanes(Floats v) {
  return reduce_lanes(v, [](auto a, auto b) { return a + b; });
}
TRIREME_INLINE float max_lanes(Floats v) {
  return reduce_lanes(v, [](auto a, auto b) {
    if constexpr (requires { a.lo; })
      return max(a, b);
    else
      return a > b ? a : b;
  });
}

/// Sixteen elements from i on, or the `n` that are left of them. A row's last lanes are computed as
/// all others are, so a result never depends on where in a call its element stands.
struct Whole {
  Index i;
  TRIREME_INLINE Floats load(const float* p, float = 0) const { return TRIREME_SIMD::load(p + i); }
  TRIREME_INLINE void store(float* p, Floats v) const { TRIREME_SIMD::store(p + i, v); }
  TRIREME_INLINE Floats mask(Floats v) const { return v; }
};
struct Part {
  Index i, n;
  TRIREME_INLINE Floats load(const float* p, float rest = 0) const {
    return TRIREME_SIMD::load(p + i, n, rest);
  }
  TRIREME_INLINE void store(float* p, Floats v) const { TRIREME_SIMD::store(p + i, v, n); }
  /// Zeros in lanes that do not exist.
  TRIREME_INLINE Floats mask(Floats v) const {
    float buffer[lanes];
    TRIREME_SIMD::store(buffer, v);
    return TRIREME_SIMD::load(buffer, n, 0);
  }
};

/// f(at) for [begin, end), sixteen elements at a time.
template <class F>
TRIREME_INLINE void each(Index begin, Index end, F f) {
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
  each(i, count, [&](auto at) { a = a + f(at); });
  return sum_lanes((a + b) + (c + d));
}

}  // namespace
}  // namespace trireme::TRIREME_SIMD
