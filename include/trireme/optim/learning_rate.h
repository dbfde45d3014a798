// LearningRate: the learning rate as a pure function of the step, with the words and the meaning of
// Megatron-LM: linear warm-up from 0, then constant, or linear or cosine decay to a smallest rate,
// reached at `decay_iters`.
#pragma once

#include "trireme/core/dtype.h"

namespace trireme {

struct LearningRateOptions {
  enum class Decay { constant, linear, cosine };
  Decay decay = Decay::cosine;
  double lr = 3e-4;        // --lr: the largest
  double min_lr = 0;       // --min-lr
  Index warmup_iters = 0;  // --lr-warmup-iters
  Index decay_iters =
      0;  // --lr-decay-iters; the caller's default is --train-iters. Warm-up is part of it
};
const char* name(LearningRateOptions::Decay decay);

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
