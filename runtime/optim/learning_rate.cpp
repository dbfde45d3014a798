#include "trireme/optim/learning_rate.h"

#include <cmath>
#include <numbers>

#include "trireme/core/error.h"

namespace trireme {

const char* name(LearningRateOptions::Decay decay) {
  switch (decay) {
    case LearningRateOptions::Decay::constant:
      return "constant";
    case LearningRateOptions::Decay::linear:
      return "linear";
    case LearningRateOptions::Decay::cosine:
      return "cosine";
  }
  return "unknown";
}

LearningRate::LearningRate(const LearningRateOptions& options) : options_(options) {
  require(std::isfinite(options.lr) && options.lr >= 0, "--lr is ", options.lr,
          "; it must be a number >= 0");
  require(options.min_lr >= 0 && options.min_lr <= options.lr, "--min-lr is ", options.min_lr,
          "; it must lie between 0 and --lr ", options.lr);
  require(options.warmup_iters >= 0, "--lr-warmup-iters is ", options.warmup_iters,
          "; it must be >= 0");
  require(options.decay == LearningRateOptions::Decay::constant ||
              (options.decay_iters > 0 && options.decay_iters >= options.warmup_iters),
          "--lr-decay-iters is ", options.decay_iters,
          "; it counts the warm-up too, so it must be positive and at least --lr-warmup-iters ",
          options.warmup_iters);
}

double LearningRate::at(Index step) const {
  require(step >= 0, "learning rate of step ", step);
  const auto& o = options_;
  if (step < o.warmup_iters)
    return o.lr * static_cast<double>(step) / static_cast<double>(o.warmup_iters);
  if (o.decay == LearningRateOptions::Decay::constant) return o.lr;
  if (step >= o.decay_iters) return o.min_lr;
  const double done = static_cast<double>(step - o.warmup_iters) /
                      static_cast<double>(o.decay_iters - o.warmup_iters);
  const double left = o.decay == LearningRateOptions::Decay::linear
                          ? 1 - done
                          : 0.5 * (1 + std::cos(std::numbers::pi * done));
  return o.min_lr + left * (o.lr - o.min_lr);
}

}  // namespace trireme
