// Rotary position embedding (Su et al. 2021, arXiv:2104.09864), half-split layout: pair (j, j +
// head_dim / 2).
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "trireme/graph/graph.h"

namespace trireme {

/// The frequencies of the paper: theta^(-2 j / head_dim) for j < head_dim / 2. head_dim is even.
std::vector<double> rotary_frequencies(Index head_dim, float theta);

/// Cosines and sines of all positions, computed once while tracing and shared by the layers, on a
/// GPU as a constant of the graph: a table costs neither time nor slot memory in the loop, and
/// never crosses a stage cut.
class RotaryTable {
 public:
  /// One frequency for each pair of a head, head_dim / 2 of them: pair j rotates by position *
  /// frequencies[j].
  RotaryTable(Index sequence, std::span<const double> frequencies);
  /// With rotary_frequencies(head_dim, theta).
  RotaryTable(Index sequence, Index head_dim, float theta);
  Index sequence() const { return sequence_; }
  Index head_dim() const { return head_dim_; }
  /// (sequence, head_dim): cos of each pair, then sin. Host memory.
  const float* data() const { return values_.data(); }
  Index bytes() const { return sequence_ * head_dim_ * static_cast<Index>(sizeof(float)); }

 private:
  Index sequence_, head_dim_;
  std::vector<float> values_;
};
using RotaryTablePtr = std::shared_ptr<const RotaryTable>;

/// Rotates the first `heads` heads (queries and keys) of every row of the packed projections, in
/// place where the plan allows. qkv: (batch * sequence, columns >= heads * head_dim).
Value rotary(Value qkv, RotaryTablePtr table, Index heads);

}  // namespace trireme
