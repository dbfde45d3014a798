// Options of the learning rate: linear warm-up from 0 to lr, then `decay`, down to min_lr.
#pragma once

#include "trireme/core/dtype.h"

namespace trireme {

struct LearningRateOptions {
  enum class Decay { constant, linear, cosine, wsd };
  /// How the rate falls at the end of WSD. With r, the completed fraction of those steps, it is
  /// min_lr + left(r) * (lr - min_lr), where left(r) is 1 - r, (1 + cos(pi r)) / 2, 2 * 0.5^r - 1
  /// or 1 - sqrt(r).
  enum class WsdDecay { linear, cosine, exponential, minus_sqrt };

  Decay decay = Decay::cosine;
  double lr = 3e-4;        // --lr: the largest
  double min_lr = 0;       // --min-lr
  Index warmup_iters = 0;  // --lr-warmup-iters
  // --lr-decay-iters; the caller's default is --train-iters. Warm-up is part of it
  Index decay_iters = 0;
  Index wsd_decay_iters = 0;  // --lr-wsd-decay-iters: the last ones of decay_iters
  WsdDecay wsd_decay = WsdDecay::exponential;
};
const char* name(LearningRateOptions::Decay decay);
const char* name(LearningRateOptions::WsdDecay decay);

/// A tenth of decay_iters, as MiniCPM found sufficient; fewer if the warm-up leaves fewer.
Index default_wsd_decay_iters(const LearningRateOptions& options);

}  // namespace trireme
