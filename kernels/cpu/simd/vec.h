// Floats: sixteen fp32 lanes on every instruction set (one AVX-512 register, two of AVX2, four of
// SSE), so that sums over lanes have one order everywhere.
#pragma once

#include "kernels/cpu/simd/register.h"

namespace trireme::kernels::TRIREME_SIMD {
namespace {

constexpr Index lanes = 16;

/// Two of something, with the operators of one.
template <class T>
struct Pair {
  T lo, hi;
};
#if defined(__AVX512F__)
using Floats = FloatRegister;
#elif defined(__AVX2__)
using Floats = Pair<FloatRegister>;
#else
using Floats = Pair<Pair<FloatRegister>>;
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
  static TRIREME_INLINE T load(const Bf16* p) { return load_halves(p); }
  static TRIREME_INLINE void store(Bf16* p, T v) { store_halves(p, v); }
  static constexpr Index count = register_lanes;
};
template <class T>
struct Lanes<Pair<T>> {
  using Half = Lanes<T>;
  static TRIREME_INLINE Pair<T> fill(float x) { return {Half::fill(x), Half::fill(x)}; }
  template <class Stored>
  static TRIREME_INLINE Pair<T> load(const Stored* p) {
    return {Half::load(p), Half::load(p + Half::count)};
  }
  template <class Stored>
  static TRIREME_INLINE void store(Stored* p, Pair<T> v) {
    Half::store(p, v.lo);
    Half::store(p + Half::count, v.hi);
  }
  static constexpr Index count = 2 * Half::count;
};
static_assert(Lanes<Floats>::count == lanes);

TRIREME_INLINE Floats all(float x) { return Lanes<Floats>::fill(x); }
TRIREME_INLINE auto all_bits(std::uint32_t x) { return bits(all(__builtin_bit_cast(float, x))); }
/// Memory holds float or Bf16; a store to Bf16 rounds to nearest.
template <class Stored>
TRIREME_INLINE Floats load(const Stored* p) {
  return Lanes<Floats>::load(p);
}
template <class Stored>
TRIREME_INLINE void store(Stored* p, Floats v) {
  Lanes<Floats>::store(p, v);
}
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
TRIREME_INLINE Floats load(const Bf16* p, Index n, float rest) {
  float buffer[lanes];
  store(buffer, all(rest));
  for (Index i = 0; i < n; ++i)
    buffer[i] = __builtin_bit_cast(float, static_cast<std::uint32_t>(p[i].bits) << 16);
  return load(buffer);
}
TRIREME_INLINE void store(Bf16* p, Floats v, Index n) {
  Bf16 buffer[lanes];
  store(buffer, v);
  for (Index i = 0; i < n; ++i) p[i] = buffer[i];
}

/// combine(a, b) over sixteen lanes: lane i with lane i + 8, then + 4, + 2, + 1.
template <class F>
TRIREME_INLINE float reduce_lanes(FloatRegister v, F combine) {
#if defined(__AVX512F__)
  const auto half =
      combine(shuffle<0, 1, 2, 3, 4, 5, 6, 7>(v, v), shuffle<8, 9, 10, 11, 12, 13, 14, 15>(v, v));
#else
  const auto half = v;
#endif
#if defined(__AVX2__)
  const auto w = combine(shuffle<0, 1, 2, 3>(half, half), shuffle<4, 5, 6, 7>(half, half));
#else
  const auto w = half;
#endif
  const auto pairs = combine(w, shuffle<2, 3, 2, 3>(w, w));
  return combine(pairs, shuffle<1, 1, 1, 1>(pairs, pairs))[0];
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

}  // namespace
}  // namespace trireme::kernels::TRIREME_SIMD
