// exp, the logistic function and the normal distribution for Floats. Errors against fp64 over all
// arguments are stated with each function and checked in tests/kernels/math_test.cpp.
#pragma once

#include "kernels/cpu/simd/vec.h"

namespace trireme::kernels::TRIREME_SIMD {
namespace {

/// exp(x + tail) for -87.3 <= x <= 88.7, |tail| small. Polynomial of Cephes' expf (Moshier); scaled
/// by adding to the exponent field.
TRIREME_INLINE Floats exp_sum(Floats x, Floats tail) {
  const Floats rounder = all(0x1.8p23f);
  const Floats shifted =
      fma(x, all(1.44269504088896341f), rounder);  // n = round(x / ln 2) in the low bits
  const Floats n = shifted - rounder;
  Floats r = fma(n, all(-0.693359375f), x);  // ln 2 in two parts; the first times n is exact
  r = fma(n, all(2.12194440e-4f), r) + tail;
  Floats p = all(1.9875691500e-4f);
  p = fma(p, r, all(1.3981999507e-3f));
  p = fma(p, r, all(8.3334519073e-3f));
  p = fma(p, r, all(4.1665795894e-2f));
  p = fma(p, r, all(1.6666665459e-1f));
  p = fma(p, r, all(5.0000001201e-1f));
  p = fma(p * r, r, r) + all(1.0f);
  return from_bits(bits(p) + (bits(shifted) << 23));
}

/// Returns exp(x) within 1.5 ulp; 0 where that would be below the smallest normal number.
TRIREME_INLINE Floats exp(Floats x) {
  Floats y = exp_sum(x, all(0.0f));
  y = select(x < all(-87.3365f), all(0.0f), y);
  y = select(all(88.7228f) < x, all(__builtin_inff()), y);
  return select(x < all(__builtin_inff()), y, x);  // infinity, and what is not a number
}

/// exp(x), but exp(-87) where x < -87, and exp(87) where x > 87: this is cheaper.
TRIREME_INLINE Floats bounded_exp(Floats x) {
  return exp_sum(max(all(-87.0f), min(all(87.0f), x)), all(0.0f));
}

/// 1 / (1 + exp(-x)), within 3 ulp for x > -87, never below 1.6e-38.
TRIREME_INLINE Floats sigmoid(Floats x) { return all(1.0f) / (all(1.0f) + bounded_exp(-x)); }

/// sigmoid(x) and 1 - sigmoid(x), both accurate where they are small.
struct Logistic {
  Floats below, above;
};
TRIREME_INLINE Logistic logistic(Floats x) {
  const Floats e = bounded_exp(-x), below = all(1.0f) / (all(1.0f) + e);
  return {below, select(all(0.0f) < x, e * below, all(1.0f) - below)};
}

/// The normal distribution: its density without the factor 1 / sqrt(2 pi), and P(X < x).
struct Normal {
  Floats density, below;
};

/// below: within 8 ulp for all x (6 with FMA), 0 for x < -13.2. Where |x| < 1.2 it is 1 / 2 + x
/// q(x^2); beyond, the upper half of erfc is exp(-x^2 / 2) t p(t), t = 1 / (1 + 0.3 |x| / sqrt 2).
/// p and q are fitted (relative errors 2e-8 and 8e-9); the square is split so that its rounding
/// does not count.
TRIREME_INLINE Normal normal(Floats x) {
  const Floats high = from_bits(bits(x) & all_bits(0xfffff000u));
  const Floats half = all(-0.5f);
  const Floats size = from_bits(bits(x) & all_bits(0x7fffffffu));
  Floats density = exp_sum(half * (high * high), half * ((x - high) * (x + high)));
  density = select(all(13.2f) < size, all(0.0f), density);
  const Floats t = all(1.0f) / fma(size, all(0.3f * 0.70710678118654752f), all(1.0f));
  Floats p = all(-0.06476121784f);
  p = fma(p, t, all(0.2427804739f));
  p = fma(p, t, all(-0.2561367288f));
  p = fma(p, t, all(0.2738573937f));
  p = fma(p, t, all(-0.047323574f));
  p = fma(p, t, all(0.1074622768f));
  p = fma(p, t, all(0.07416977519f));
  p = fma(p, t, all(0.08535758714f));
  p = fma(p, t, all(0.08459400414f));
  const Floats beyond = density * (t * p);
  const Floats outer = select(all(0.0f) < x, all(1.0f) - beyond, beyond);
  const Floats square = x * x;
  Floats q = all(-6.898192722e-6f);
  q = fma(q, square, all(0.0001113498632f));
  q = fma(q, square, all(-0.001184209679f));
  q = fma(q, square, all(0.009972464068f));
  q = fma(q, square, all(-0.0664902384f));
  q = fma(q, square, all(0.3989422774f));
  return {density, select(size < all(1.2f), fma(x, q, all(0.5f)), outer)};
}

}  // namespace
}  // namespace trireme::kernels::TRIREME_SIMD
