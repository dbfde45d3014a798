// The functions of math.h over arrays, for tests of their accuracy, conversions of arrays, and the
// loop that measures the FMA peak.
#include "kernels/cpu/simd/math.h"

#include "kernels/cpu/loops.h"
#include "kernels/cpu/simd/for_each_vector.h"

namespace trireme::kernels::TRIREME_SIMD {
namespace {

void exp_of(const float* x, float* y, Index count) {
  for_each_vector(0, count, [=](auto at) { at.store(y, exp(at.load(x))); });
}
void sigmoid_of(const float* x, float* y, Index count) {
  for_each_vector(0, count, [=](auto at) { at.store(y, sigmoid(at.load(x))); });
}
void normal_below_of(const float* x, float* y, Index count) {
  for_each_vector(0, count, [=](auto at) { at.store(y, normal(at.load(x)).below); });
}
void widen(const Bf16* x, float* y, Index count) {
  for_each_vector(0, count, [=](auto at) { at.store(y, at.load(x)); });
}
void narrow(const float* x, Bf16* y, Index count) {
  for_each_vector(0, count, [=](auto at) { at.store(y, at.load(x)); });
}

// Twelve independent chains, each in a register of its own (an array of them would be spilled): two
// units times a latency of four or five cycles need at least ten. Returns a value that depends on
// all; operations: FLOPs done.
double multiply_add(Index repetitions, double* operations) {
  using R = FloatRegister;
  const auto fill = [](float x) { return Lanes<R>::fill(x); };
  R a = fill(1), b = fill(2), c = fill(3), d = fill(4), e = fill(5), f = fill(6);
  R g = fill(7), h = fill(8), i = fill(9), j = fill(10), k = fill(11), l = fill(12);
  R x = fill(0.999f), y = fill(0.001f);
  for (Index n = 0; n < repetitions; ++n) {
    a = fma(a, x, y), b = fma(b, x, y), c = fma(c, x, y), d = fma(d, x, y);
    e = fma(e, x, y), f = fma(f, x, y), g = fma(g, x, y), h = fma(h, x, y);
    i = fma(i, x, y), j = fma(j, x, y), k = fma(k, x, y), l = fma(l, x, y);
  }
  *operations = 2.0 * 12 * register_lanes * static_cast<double>(repetitions);
  const R total = ((a + b) + (c + d)) + ((e + f) + (g + h)) + ((i + j) + (k + l));
  double result = 0;
  for (int lane = 0; lane < register_lanes; ++lane) result += static_cast<double>(total[lane]);
  return result;
}

}  // namespace
}  // namespace trireme::kernels::TRIREME_SIMD

namespace trireme::kernels {

const MathLoops MathLoops::TRIREME_SIMD = {TRIREME_SIMD::exp_of, TRIREME_SIMD::sigmoid_of,
                                           TRIREME_SIMD::normal_below_of};
const ConversionLoops ConversionLoops::TRIREME_SIMD = {TRIREME_SIMD::widen, TRIREME_SIMD::narrow};
const PeakLoops PeakLoops::TRIREME_SIMD = {TRIREME_SIMD::multiply_add};

}  // namespace trireme::kernels
