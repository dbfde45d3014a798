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

/// Cosines and sines of all positions, (sequence, head_dim) floats: cos of each pair, then sin. A
/// constant of the graph that the layers share: it costs neither time nor slot memory in the loop,
/// and never crosses a stage cut.
class RotaryTable final : public Constant {
 public:
  /// One frequency for each pair of a head, head_dim / 2 of them: pair j rotates by position *
  /// frequencies[j].
  RotaryTable(Index sequence, std::span<const double> frequencies);
  /// With rotary_frequencies(head_dim, theta).
  RotaryTable(Index sequence, Index head_dim, float theta);
  Index sequence() const { return sequence_; }
  Index head_dim() const { return 2 * static_cast<Index>(frequencies_.size()); }
  Index bytes() const override {
    return sequence_ * head_dim() * static_cast<Index>(sizeof(float));
  }
  void write(std::byte* to) const override;

 private:
  Index sequence_;
  std::vector<double> frequencies_;
};
using RotaryTablePtr = std::shared_ptr<const RotaryTable>;

/// Rotates the first `heads` heads (queries and keys) of every row of the packed projections, in
/// place where the plan allows. qkv: (batch * sequence, columns >= heads * head_dim).
Value rotary(Value qkv, RotaryTablePtr table, Index heads);

}  // namespace trireme
