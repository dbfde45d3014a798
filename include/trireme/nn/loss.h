// Losses: sums over targets in fp64, divided once by the global count through the seed of backward
// (graph/executor.h).
#pragma once

#include "trireme/graph/graph.h"

namespace trireme {

/// Sum over rows of logsumexp(logits) - logits[target], fused softmax and logarithm. logits: (rows,
/// columns), columns may be split over the tensor axis and padded (only the first `vocabulary` of
/// all are read); targets: i32 of `rows` elements, below zero: ignored. The gradient takes the
/// logits' memory. -> f64 scalar. The exchange between tensor ranks is three floats a row (Shoeybi
/// et al. 2019, arXiv:1909.08053, section 3).
Value cross_entropy(Value logits, Value targets, Index vocabulary);

/// Sum of (x - target)^2. One shape, whole -> f64 scalar. No gradient flows to the target.
Value squared_error(Value x, Value target);

}  // namespace trireme
