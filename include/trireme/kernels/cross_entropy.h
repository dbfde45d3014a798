// Softmax cross-entropy over a vocabulary that may be split over tensor ranks, in two local passes
// with one small exchange between them (Shoeybi et al. 2019, arXiv:1909.08053, section 3).
#pragma once

#include "trireme/core/device.h"

namespace trireme {

/// Targets below zero are ignored: loss 0, gradient 0.
inline constexpr std::int32_t ignored_target = -100;

/// Per row, over this rank's columns: the largest logit, the sum of exp(logit - largest), and the
/// target's logit (0 when another rank has it). These three are exchanged between tensor ranks.
struct RowPartial {
  float max, sum_exp, target;
};
struct CrossEntropyPartial {
  Index rows, columns;  // columns: this rank's part, without padding
  Index row_stride;     // elements from row to row of `logits`
  Index first;          // vocabulary index of column 0
  const void* logits;
  const std::int32_t* targets;  // (rows)
  RowPartial* partial;          // (rows)
  DType dtype = DType::f32;     // type of the logits
};
/// Combines the partials of all ranks in rank order.
struct CrossEntropyCombine {
  Index rows;
  int ranks;
  const RowPartial* partials;  // (ranks, rows)
  const std::int32_t* targets;
  float* logsumexp;  // (rows)
  double* loss;  // (1), assigned: the sum in fp64 over rows that are not ignored, in a fixed order
};
/// dlogits = (exp(logit - logsumexp) - [column is target]) * *scale; zero for ignored rows and
/// padding columns.
struct CrossEntropyBackward {
  Index rows, columns, padded_columns, row_stride, first;
  const void* logits;
  const std::int32_t* targets;
  const float* logsumexp;
  const double* scale;       // (1) gradient of the loss, on the device
  void* dlogits;             // may be logits
  DType dtype = DType::f32;  // type of logits and dlogits
};

struct CrossEntropyKernels {
  void (*partial)(Stream&, const CrossEntropyPartial&);
  void (*combine)(Stream&, const CrossEntropyCombine&);
  void (*backward)(Stream&, const CrossEntropyBackward&);
};

}  // namespace trireme
