// Rotary position embedding (Su et al. 2021, arXiv:2104.09864), half-split layout: pair (j, j +
// head_dim / 2).
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "trireme/graph/graph.h"

namespace trireme {

/// How the frequencies change for sequences longer than those that a model was first trained on.
enum class RotaryScalingKind {
  none,
  linear,  // all divided by the factor (Chen et al. 2023, arXiv:2306.15595)
  llama3,  // low ones divided, high ones kept, blended between (Llama 3.1, arXiv:2407.21783)
  yarn     // the same, with a ramp over the pairs; cosines and sines are scaled (Peng et al. 2023,
           // arXiv:2309.00071)
};
const char* name(RotaryScalingKind kind);

/// The defaults are those of Llama 3.1.
struct RotaryScaling {
  RotaryScalingKind kind = RotaryScalingKind::none;
  float factor = 8;                 // longest sequence / original_positions
  Index original_positions = 8192;  // sequence length of the first training; llama3 and yarn
  float low_frequency_factor = 1;   // llama3: divided where original_positions hold fewer periods,
  float high_frequency_factor = 4;  // kept where they hold more than this
  float beta_fast = 32;             // yarn: kept where original_positions hold more periods,
  float beta_slow = 1;              // divided where they hold fewer than this
  float attention_factor = 0;       // yarn: of cosines and sines; 0: 0.1 ln(factor) + 1
  bool truncate = true;             // yarn: the ramp begins and ends at a pair, not between pairs
};

/// The frequencies of the paper: theta^(-2 j / head_dim) for j < head_dim / 2. head_dim is even.
std::vector<double> rotary_frequencies(Index head_dim, float theta);
/// Returns the scaled frequencies. Throws: Error when yarn's theta is not above 1.
std::vector<double> rotary_frequencies(Index head_dim, float theta, const RotaryScaling& scaling);
/// Returns what cosines and sines are multiplied by: 1 but for yarn.
double rotary_amplitude(const RotaryScaling& scaling);

/// Cosines and sines of all positions, (sequence, head_dim) floats: cos of each pair, then sin. A
/// constant of the graph that the layers share: it costs neither time nor slot memory in the loop,
/// and never crosses a stage cut.
class RotaryTable final : public Constant {
 public:
  /// One frequency for each pair of a head, head_dim / 2 of them: pair j rotates by position *
  /// frequencies[j], and is multiplied by `amplitude`.
  RotaryTable(Index sequence, std::span<const double> frequencies, double amplitude = 1);
  /// Makes a table with rotary_frequencies(head_dim, theta).
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
  double amplitude_;
};
using RotaryTablePtr = std::shared_ptr<const RotaryTable>;

/// Rotates the first `heads` heads (queries and keys) of every row of the packed projections, in
/// place where the plan allows. qkv: (batch * sequence, columns >= heads * head_dim).
Value rotary(Value qkv, RotaryTablePtr table, Index heads);

}  // namespace trireme
