// Cross-entropy over columns that are divided among the tensor ranks: the kernels and the exchange
// between them, for all ops that have logits.
#pragma once

#include "trireme/graph/graph.h"
#include "trireme/kernels/cross_entropy.h"

namespace trireme::nn {

/// The part of one of `ranks` in a vocabulary padded to ranks * width: the logits of columns [rank
/// * width, (rank + 1) * width).
struct VocabularyPart {
  Index vocabulary, rank = 0, ranks = 1;
  /// Columns that are vocabulary, not padding.
  Index columns(Index width) const;
  /// Throws: Error when all ranks together have fewer than the vocabulary.
  void require_columns(Index width) const;
};

/// `columns`: logits, or the weights of their layer, which may be split over the tensor axis.
VocabularyPart vocabulary_part(Value columns, Index vocabulary);

/// Rows of logits and what belongs to each of them.
struct LogitRows {
  Tensor logits;                // (rows, width); rows may lie apart
  const std::int32_t* targets;  // (rows)
  float* logsumexp;             // (rows)
};

Index partials_bytes(const VocabularyPart& part, Index rows);
/// What sum_loss() exchanges.
std::vector<CollectiveWork> exchanged_partials(const VocabularyPart& part, Index rows);

/// Computes the logsumexp of each row, and their loss: one f64, assigned. `partials`:
/// partials_bytes of scratch.
void sum_loss(Stream& stream, Communicator& tensor_axis, const VocabularyPart& part,
              const LogitRows& rows, RowPartial* partials, double* loss);

/// `scale`: the gradient of the loss. `dlogits`, with the strides of the logits, may be the logits.
void differentiate_logits(Stream& stream, const VocabularyPart& part, const LogitRows& rows,
                          const double* scale, void* dlogits);

}  // namespace trireme::nn
