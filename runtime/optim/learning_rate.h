// LearningRate: the learning rate as a pure function of the step, with the terms and semantics of
// Megatron-LM: linear warm-up from 0, then constant, or a decay to a smallest rate, reached at
// `decay_iters`: linear, cosine, or only in the last `wsd_decay_iters` steps (WSD: warm-up, stable,
// decay; Hu et al. 2024, MiniCPM, arXiv:2404.06395).
//
// Not installed; modules above may include it.
#pragma once

#include "trireme/optim/learning_rate_options.h"

namespace trireme {

class LearningRate {
 public:
  /// Throws: Error that names the option, its value and what would be right.
  explicit LearningRate(const LearningRateOptions& options);
  const LearningRateOptions& options() const { return options_; }
  /// `step`: 1 for the first update. warmup_iters is the first step at full rate, decay_iters the
  /// first at min_lr.
  double at(Index step) const;

 private:
  LearningRateOptions options_;
};

}  // namespace trireme
