// Launchers of cross-entropy, and the step between the two passes over logits.
#include <cmath>

#include "kernels/cpu/cpu_device.h"

namespace trireme {

namespace {

void partial(Stream& stream, const CrossEntropyPartial& p) {
  require(p.rows >= 0 && p.columns >= 0 && p.columns <= p.row_stride, "cross-entropy over ",
          p.columns, " columns of rows of ", p.row_stride);
  parallel_for(stream, p.rows, grain_rows(4 * p.columns), [&](Index begin, Index end) {
    loops_of(stream).cross_entropy.partial(p, begin, end);
  });
}

// A few operations a row, in fp64 and in the order of rows: not worth a second thread.
void combine(Stream&, const CrossEntropyCombine& p) {
  require(p.rows >= 0 && p.ranks >= 1, "cross-entropy of ", p.rows, " rows over ", p.ranks,
          " ranks");
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
  require(p.columns >= 0 && p.columns <= p.padded_columns && p.padded_columns <= p.row_stride,
          "cross-entropy gradient over ", p.columns, " columns, ", p.padded_columns,
          " with padding, of rows of ", p.row_stride);
  parallel_for(stream, p.rows, grain_rows(4 * p.columns), [&](Index begin, Index end) {
    loops_of(stream).cross_entropy.backward(p, begin, end);
  });
}

}  // namespace

const CrossEntropyKernels cpu_cross_entropy_kernels = {partial, combine, backward};

}  // namespace trireme
