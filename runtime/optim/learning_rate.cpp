#include "runtime/optim/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "trireme/core/error.h"

namespace trireme {

namespace {

using Decay = LearningRateOptions::Decay;
using WsdDecay = LearningRateOptions::WsdDecay;

/// What is left of lr - min_lr when `done` of the decay is, from 0 to 1.
double left_of(WsdDecay style, double done) {
  switch (style) {
    case WsdDecay::linear:
      return 1 - done;
    case WsdDecay::cosine:
      return 0.5 * (1 + std::cos(std::numbers::pi * done));
    case WsdDecay::exponential:
      return 2 * std::pow(0.5, done) - 1;
    case WsdDecay::minus_sqrt:
      return 1 - std::sqrt(done);
  }
  return 0;
}

/// A decay is that of WSD over a part of the steps; over all but the warm-up in the other styles.
WsdDecay shape_of(const LearningRateOptions& options) {
  switch (options.decay) {
    case Decay::linear:
      return WsdDecay::linear;
    case Decay::cosine:
      return WsdDecay::cosine;
    case Decay::wsd:
      return options.wsd_decay;
    case Decay::constant:
      break;
  }
  throw Error("a constant learning rate has no decay");
}

}  // namespace

const char* name(LearningRateOptions::Decay decay) {
  switch (decay) {
    case Decay::constant:
      return "constant";
    case Decay::linear:
      return "linear";
    case Decay::cosine:
      return "cosine";
    case Decay::wsd:
      return "WSD";
  }
  return "";
}

const char* name(LearningRateOptions::WsdDecay decay) {
  switch (decay) {
    case WsdDecay::linear:
      return "linear";
    case WsdDecay::cosine:
      return "cosine";
    case WsdDecay::exponential:
      return "exponential";
    case WsdDecay::minus_sqrt:
      return "minus_sqrt";
  }
  return "";
}

Index default_wsd_decay_iters(const LearningRateOptions& options) {
  const Index after_warm_up = options.decay_iters - options.warmup_iters;
  return std::max<Index>(1, std::min(options.decay_iters / 10, after_warm_up));
}

LearningRate::LearningRate(const LearningRateOptions& options) : options_(options) {
  require(std::isfinite(options.lr) && options.lr >= 0, "--lr is ", options.lr,
          "; it must be a number >= 0");
  require(options.min_lr >= 0 && options.min_lr <= options.lr, "--min-lr is ", options.min_lr,
          "; it must lie between 0 and --lr ", options.lr);
  require(options.warmup_iters >= 0, "--lr-warmup-iters is ", options.warmup_iters,
          "; it must be >= 0");
  require(options.decay == Decay::constant ||
              (options.decay_iters > 0 && options.decay_iters >= options.warmup_iters),
          "--lr-decay-iters is ", options.decay_iters,
          "; it counts the warm-up too, so it must be positive and at least --lr-warmup-iters ",
          options.warmup_iters);
  const Index after_warm_up = std::max<Index>(1, options.decay_iters - options.warmup_iters);
  require(options.decay != Decay::wsd ||
              (options.wsd_decay_iters > 0 && options.wsd_decay_iters <= after_warm_up),
          "--lr-wsd-decay-iters is ", options.wsd_decay_iters,
          "; it must be positive, and at most what --lr-warmup-iters leaves of --lr-decay-iters, ",
          after_warm_up);
}

double LearningRate::at(Index step) const {
  require(step >= 1, "learning rate of step ", step);
  const auto& o = options_;
  const Index updates = step - 1;  // before this one
  if (updates < o.warmup_iters)
    return o.lr * static_cast<double>(step) / static_cast<double>(o.warmup_iters + 1);
  if (o.decay == Decay::constant) return o.lr;
  if (updates >= o.decay_iters) return o.min_lr;
  const Index begin = o.decay == Decay::wsd ? o.decay_iters - o.wsd_decay_iters : o.warmup_iters;
  if (updates <= begin) return o.lr;
  const double done =
      static_cast<double>(updates - begin) / static_cast<double>(o.decay_iters - begin);
  return o.min_lr + left_of(shape_of(o), done) * (o.lr - o.min_lr);
}

}  // namespace trireme
