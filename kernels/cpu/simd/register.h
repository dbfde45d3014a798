// One hardware register and what can be done with it on this file's instruction set. Only for
// cpu/simd/*.cpp, which are compiled once per instruction set: everything here is internal to the
// file that includes it, and no function of the standard library is called.
#pragma once

#include <cstdint>
#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "trireme/core/bf16.h"

#define TRIREME_INLINE __attribute__((always_inline)) inline

namespace trireme::kernels::TRIREME_SIMD {
namespace {

#if defined(__AVX512F__)
constexpr int register_bytes = 64;
#elif defined(__AVX2__)
constexpr int register_bytes = 32;
#else
constexpr int register_bytes = 16;
#endif
constexpr int register_lanes = register_bytes / 4;

// One hardware register.
typedef float FloatRegister __attribute__((vector_size(register_bytes)));
typedef std::uint32_t BitsRegister __attribute__((vector_size(register_bytes)));
typedef std::int32_t MaskRegister __attribute__((vector_size(register_bytes)));  // 0 or -1
typedef float UnalignedFloats __attribute__((vector_size(register_bytes), aligned(4), may_alias));
// A vector type with as many halves of 16 bits as a register has floats, anywhere in memory.
typedef std::uint16_t UnalignedHalves
    __attribute__((vector_size(register_bytes / 2), aligned(2), may_alias));

/// Returns those of the lanes of a, followed by b's, that are listed.
template <int... chosen, class V>
TRIREME_INLINE auto shuffle(V a, V b) {
#if __has_builtin(__builtin_shufflevector)
  return __builtin_shufflevector(a, b, chosen...);
#else  // gcc 11: it makes a shuffle of this
  constexpr int count = sizeof(V) / sizeof(float);
  typedef float Chosen __attribute__((vector_size(sizeof...(chosen) * sizeof(float))));
  return Chosen{(chosen < count ? a[chosen % count] : b[chosen % count])...};
#endif
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
TRIREME_INLINE FloatRegister select(MaskRegister mask, FloatRegister a, FloatRegister b) {
  return mask ? a : b;
}
TRIREME_INLINE BitsRegister bits(FloatRegister a) { return (BitsRegister)a; }
TRIREME_INLINE FloatRegister from_bits(BitsRegister a) { return (FloatRegister)a; }

/// Bf16 in memory as floats.
TRIREME_INLINE FloatRegister load_halves(const Bf16* p) {
  const UnalignedHalves halves = *reinterpret_cast<const UnalignedHalves*>(p);
  return from_bits(__builtin_convertvector(halves, BitsRegister) << 16);
}
/// Stores what `to_bf16` makes: rounded to nearest, ties to even; what is not a number stays so.
TRIREME_INLINE void store_halves(Bf16* p, FloatRegister v) {
  const BitsRegister b = bits(v);
  const BitsRegister rounded = (b + (((b >> 16) & 1u) + 0x7fffu)) >> 16, quiet = (b >> 16) | 0x40u;
  *reinterpret_cast<UnalignedHalves*>(p) =
      __builtin_convertvector(v == v ? rounded : quiet, UnalignedHalves);
}

}  // namespace
}  // namespace trireme::kernels::TRIREME_SIMD
