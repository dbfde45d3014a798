// The two passes of softmax cross-entropy over logits, row by row.
#include "kernels/cross_entropy.h"

#include "kernels/cpu/simd/for_each_vector.h"
#include "kernels/cpu/simd/math.h"

namespace trireme::kernels::TRIREME_SIMD {
namespace {

constexpr Index block =
    1024;  // columns whose largest is found before any exp: 4 KiB, still in the first cache

struct Online {
  float max, sum;
};

template <class T>
Online add_block(Online so_far, const T* x, Index count) {
  Floats largest = all(so_far.max);
  for_each_vector(0, count, [&](auto at) { largest = max(largest, at.load(x, so_far.max)); });
  const float m = max_lanes(largest);
  const Floats shift = all(m);
  const float total =
      sum(count, [=](auto at) { return exp(at.load(x, -__builtin_inff()) - shift); });
  float factor;
  store(&factor, exp(all(so_far.max - m)), 1);
  return {m, so_far.sum * factor + total};
}

template <class T>
void partial_of(const CrossEntropyPartial& p, Index begin_row, Index end_row) {
  for (Index row = begin_row; row < end_row; ++row) {
    const T* x = static_cast<const T*>(p.logits) + row * p.row_stride;
    Online online = {-__builtin_inff(), 0};
    for (Index column = 0; column < p.columns; column += block)
      online =
          add_block(online, x + column, p.columns - column < block ? p.columns - column : block);
    const Index target = p.targets[row] - p.first;
    const bool here = p.targets[row] >= 0 && target >= 0 && target < p.columns;
    float logit = 0;
    if (here) store(&logit, load(x + target, 1, 0), 1);
    p.partial[row] = {online.max, online.sum, logit};
  }
}

template <class T>
void backward_of(const CrossEntropyBackward& p, Index begin_row, Index end_row) {
  const float scale = static_cast<float>(*p.scale);
  for (Index row = begin_row; row < end_row; ++row) {
    const T* x = static_cast<const T*>(p.logits) + row * p.row_stride;
    T* dx = static_cast<T*>(p.dlogits) + row * p.row_stride;
    if (p.targets[row] < 0) {
      for_each_vector(0, p.padded_columns, [=](auto at) { at.store(dx, all(0)); });
      continue;
    }
    const Floats shift = all(p.logsumexp[row]), factor = all(scale);
    const auto slope = [=](auto at) { return exp(at.load(x) - shift) * factor; };
    const Index target = p.targets[row] - p.first;
    Floats of_target =
        all(0);  // made of its logit, before this may be overwritten, and rounded once
    const bool here = target >= 0 && target < p.columns;
    if (here) of_target = slope(Part{target, 1}) - factor;
    for_each_vector(0, p.columns, [=](auto at) { at.store(dx, slope(at)); });
    for_each_vector(p.columns, p.padded_columns, [=](auto at) { at.store(dx, all(0)); });
    if (here) Part{target, 1}.store(dx, of_target);
  }
}

void partial(const CrossEntropyPartial& p, Index begin_row, Index end_row) {
  with_storage(p.dtype, [&]<class T>(T) { partial_of<T>(p, begin_row, end_row); });
}
void backward(const CrossEntropyBackward& p, Index begin_row, Index end_row) {
  with_storage(p.dtype, [&]<class T>(T) { backward_of<T>(p, begin_row, end_row); });
}

}  // namespace

}  // namespace trireme::kernels::TRIREME_SIMD

namespace trireme::kernels {

const CrossEntropyLoops CrossEntropyLoops::TRIREME_SIMD = {TRIREME_SIMD::partial,
                                                           TRIREME_SIMD::backward};

}  // namespace trireme::kernels
