// Sampler: draws a token by its probability, of the most probable ones only where asked to.
#pragma once

#include <cstdint>
#include <vector>

#include "trireme/train/trainer.h"

namespace trireme::train {

class Sampler {
 public:
  /// Takes temperature, top_k and top_p of `options`. Throws: Error that names the one out of
  /// range.
  Sampler(const GenerateOptions& options, Index vocabulary);
  static constexpr std::int32_t none = -1;

  /// `logits`: one a token of the vocabulary. `u`: uniform in [0, 1). Of equal logits the first is
  /// the more probable one. Returns none where a logit is NaN, or the greatest is not finite.
  std::int32_t draw(const std::vector<float>& logits, double u);

 private:
  /// Clears the weights of all but the most probable tokens.
  void keep_top(const std::vector<float>& logits);

  double temperature_, top_p_;
  Index top_k_;
  std::vector<double> weights_;       // probabilities, but for a factor
  std::vector<std::int32_t> tokens_;  // in the order in which they are kept
};

}  // namespace trireme::train
