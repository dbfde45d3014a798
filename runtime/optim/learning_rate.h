// LearningRate: the learning rate as a pure function of the step, with the terms of Megatron-LM:
// linear warm-up from 0, then constant, or a decay to a smallest rate, reached after `decay_iters`
// steps: linear, cosine, or only in the last `wsd_decay_iters` of them (WSD: warm-up, stable,
// decay; Hu et al. 2024, MiniCPM, arXiv:2404.06395). A step has the rate of the point of the
// schedule before it, as in nanoGPT, transformers and Megatron-LM; of the warm-up, whose point 0
// has the rate 0 in the latter two, nanoGPT's, so that each step changes the parameters.
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
  /// `step`: 1 for the first update. Of W = warmup_iters step s <= W has lr * s / (W + 1), and W +
  /// 1 is the first step at full rate; decay_iters + 1 is the first at min_lr.
  double at(Index step) const;

 private:
  LearningRateOptions options_;
};

}  // namespace trireme
