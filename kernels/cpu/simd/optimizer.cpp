// AdamW and SGD in one pass over all their arrays, and the sum of squares for clipping.
#include "kernels/optimizer.h"

#include "kernels/cpu/simd/for_each_vector.h"

namespace trireme::kernels::TRIREME_SIMD {
namespace {

void adamw(const AdamW& p, const UpdateRange& range, Index begin, Index end) {
  float* parameter = p.parameter + range.parameter_begin;
  const float* gradient = p.gradient + range.begin;
  float* first_moment = p.first_moment + range.state_begin;
  float* second_moment = p.second_moment + range.state_begin;
  Bf16* copy = p.compute_copy != nullptr ? p.compute_copy + range.begin : nullptr;
  const Floats scale = all(static_cast<float>(p.decision->clip_coefficient)), one = all(1);
  const Floats beta1 = all(p.beta1), rest1 = one - beta1, beta2 = all(p.beta2), rest2 = one - beta2;
  const Floats epsilon = all(p.epsilon),
               decay = all(1 - p.scalars->learning_rate * static_cast<float>(range.weight_decay));
  const Floats rate = all(p.scalars->corrected_rate);
  const Floats correction2 = all(p.scalars->second_correction);
  for_each_vector(begin, end, [&](auto at) {
    const Floats g = at.load(gradient) * scale;
    const Floats m = fma(beta1, at.load(first_moment), rest1 * g);
    const Floats v = fma(beta2, at.load(second_moment), rest2 * (g * g));
    at.store(first_moment, m);
    at.store(second_moment, v);
    const Floats step = rate * m / (sqrt(v * correction2) + epsilon);
    const Floats x = at.load(parameter) * decay - step;
    at.store(parameter, x);
    if (copy != nullptr) at.store(copy, x);
  });
}

void sgd(const Sgd& p, const UpdateRange& range, Index begin, Index end) {
  float* parameter = p.parameter + range.parameter_begin;
  const float* gradient = p.gradient + range.begin;
  float* momentum_buffer =
      p.momentum_buffer != nullptr ? p.momentum_buffer + range.state_begin : nullptr;
  Bf16* copy = p.compute_copy != nullptr ? p.compute_copy + range.begin : nullptr;
  const Floats scale = all(static_cast<float>(p.decision->clip_coefficient));
  const Floats rate = all(p.scalars->learning_rate);
  const Floats decay = all(static_cast<float>(range.weight_decay)), momentum = all(p.momentum);
  for_each_vector(begin, end, [&](auto at) {
    Floats x = at.load(parameter);
    Floats step = fma(decay, x, at.load(gradient) * scale);
    if (momentum_buffer != nullptr) {
      step = fma(momentum, at.load(momentum_buffer), step);
      at.store(momentum_buffer, step);
    }
    x = x - rate * step;
    at.store(parameter, x);
    if (copy != nullptr) at.store(copy, x);
  });
}

double sum_of_squares(const float* x, Index begin, Index end) {
  double sums[lanes] = {};
  Index i = begin;
  for (; i + lanes <= end; i += lanes)
    for (Index lane = 0; lane < lanes; ++lane)
      sums[lane] += static_cast<double>(x[i + lane]) * static_cast<double>(x[i + lane]);
  for (; i < end; ++i) sums[0] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  double total = 0;
  for (double s : sums) total += s;
  return total;
}

}  // namespace

}  // namespace trireme::kernels::TRIREME_SIMD

namespace trireme::kernels {

const OptimizerLoops OptimizerLoops::TRIREME_SIMD = {TRIREME_SIMD::adamw, TRIREME_SIMD::sgd,
                                                     TRIREME_SIMD::sum_of_squares};

}  // namespace trireme::kernels
