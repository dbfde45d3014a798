// Launchers of cross-entropy, and the step between the two passes over logits.
#include "kernels/cross_entropy.h"

#include <cmath>

#include "kernels/cpu/cpu_device.h"

namespace trireme::kernels {

namespace {

void partial(Stream& stream, const CrossEntropyPartial& p) {
  check_cross_entropy(p);
  parallel_for(stream, p.rows, grain_rows(4 * p.columns), [&](Index begin, Index end) {
    loops_of<CrossEntropyLoops>(stream).partial(p, begin, end);
  });
}

// A few operations a row, in fp64 and in the order of rows: not worth a second thread.
void combine(Stream&, const CrossEntropyCombine& p) {
  check_cross_entropy(p);
  double loss = 0;
  for (Index row = 0; row < p.rows; ++row) {
    double largest = -HUGE_VAL, sum = 0, target = 0;
    for (Index rank = 0; rank < p.ranks; ++rank)
      largest = std::fmax(largest, static_cast<double>(p.partials[rank * p.rows + row].max));
    for (Index rank = 0; rank < p.ranks; ++rank) {
      const RowPartial& part = p.partials[rank * p.rows + row];
      sum += static_cast<double>(part.sum_exp) * std::exp(static_cast<double>(part.max) - largest);
      target += static_cast<double>(part.target);
    }
    const double logsumexp = largest + std::log(sum);
    p.logsumexp[row] = static_cast<float>(logsumexp);
    if (p.targets[row] >= 0) loss += logsumexp - target;
  }
  *p.loss = loss;
}

void backward(Stream& stream, const CrossEntropyBackward& p) {
  check_cross_entropy(p);
  parallel_for(stream, p.rows, grain_rows(4 * p.columns), [&](Index begin, Index end) {
    loops_of<CrossEntropyLoops>(stream).backward(p, begin, end);
  });
}

}  // namespace

const CrossEntropyKernels& cpu_table(const CrossEntropyKernels*) {
  static constexpr CrossEntropyKernels kernels = {partial, combine, backward};
  return kernels;
}

}  // namespace trireme::kernels
