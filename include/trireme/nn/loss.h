// Losses: sums over targets in fp64, divided once by the global count through the seed of backward
// (runtime/graph/executor.h).
#pragma once

#include "trireme/graph/graph.h"

namespace trireme {

/// Sum over rows of logsumexp(logits) - logits[target], fused softmax and logarithm. logits: (rows,
/// columns), columns may be split over the tensor axis and padded (only the first `vocabulary` of
/// all are read); targets: i32 of `rows` elements, below zero: ignored. The gradient takes the
/// logits' memory. -> f64 scalar. The exchange between tensor ranks is three floats a row (Shoeybi
/// et al. 2019, arXiv:1909.08053, section 3).
Value cross_entropy(Value logits, Value targets, Index vocabulary);

/// cross_entropy(linear(x, weight), targets, vocabulary) without storing all logits. It processes
/// the rows in at most `chunks` slices of ceil(rows / chunks), one after the other; only one
/// slice's logits exist at a time, as scratch. As the training loss it does nothing in forward:
/// backward computes each slice's logits, its part of the loss and its gradients, with no more
/// products than the two ops. x: (rows, channels), packed; weight: (columns, channels), replicated,
/// or sharded with x partial_gradient; vocabulary and targets as above. Results differ from
/// those of the two ops by the order in which slices are added; one slice gives the same bits.
/// Computing the gradients together with the logits: Hsu et al. 2024, arXiv:2410.10989.
Value linear_cross_entropy(Value x, Value weight, Value targets, Index vocabulary,
                           Index chunks = 1);

/// Sum of (x - target)^2. One shape, replicated -> f64 scalar. No gradient flows to the target.
Value squared_error(Value x, Value target);

}  // namespace trireme
