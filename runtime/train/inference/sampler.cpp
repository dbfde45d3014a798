// Top-k: Fan, Lewis and Dauphin, "Hierarchical Neural Story Generation", 2018. Top-p: Holtzman,
// Buys, Du, Forbes and Choi, "The Curious Case of Neural Text Degeneration", 2020.
#include "runtime/train/inference/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace trireme::train {

Sampler::Sampler(const GenerateOptions& options, Index vocabulary)
    : temperature_(options.temperature),
      top_p_(options.top_p),
      top_k_(options.top_k == 0 ? vocabulary : std::min(options.top_k, vocabulary)),
      weights_(static_cast<std::size_t>(vocabulary)),
      tokens_(static_cast<std::size_t>(vocabulary)) {
  require(std::isfinite(temperature_) && temperature_ >= 0, "GenerateOptions::temperature is ",
          temperature_, "; it must be >= 0");
  require(options.top_k >= 0, "GenerateOptions::top_k is ", options.top_k, "; it must be >= 0");
  require(top_p_ > 0 && top_p_ <= 1, "GenerateOptions::top_p is ", top_p_,
          "; it must be > 0 and <= 1");
}

void Sampler::keep_top(const std::vector<float>& logits) {
  const auto logit_of = [&](std::int32_t token) { return logits[static_cast<std::size_t>(token)]; };
  const auto more_probable = [&](std::int32_t a, std::int32_t b) {
    const float x = logit_of(a), y = logit_of(b);
    return x > y || (x == y && a < b);
  };
  const auto weight_of = [&](std::int32_t token) -> double& {
    return weights_[static_cast<std::size_t>(token)];
  };
  std::iota(tokens_.begin(), tokens_.end(), 0);
  auto end = tokens_.begin() + top_k_;
  if (end != tokens_.end()) std::nth_element(tokens_.begin(), end, tokens_.end(), more_probable);
  if (top_p_ < 1) {
    std::sort(tokens_.begin(), end, more_probable);
    double sum = 0, reached = 0;
    for (auto token = tokens_.begin(); token != end; ++token) sum += weight_of(*token);
    auto last = tokens_.begin();
    while (last != end && reached < top_p_ * sum) reached += weight_of(*last++);
    end = last;
  }
  for (auto token = end; token != tokens_.end(); ++token) weight_of(*token) = 0;
}

std::int32_t Sampler::draw(const std::vector<float>& logits, double u) {
  if (std::any_of(logits.begin(), logits.end(), [](float x) { return std::isnan(x); })) return none;
  const auto most = std::max_element(logits.begin(), logits.end());
  const auto best = static_cast<std::int32_t>(most - logits.begin());
  if (!std::isfinite(*most)) return none;
  if (temperature_ == 0) return best;
  std::transform(logits.begin(), logits.end(), weights_.begin(), [&](float x) {
    return std::exp((static_cast<double>(x) - static_cast<double>(*most)) / temperature_);
  });
  if (top_k_ < static_cast<Index>(logits.size()) || top_p_ < 1) keep_top(logits);
  double left = u * std::accumulate(weights_.begin(), weights_.end(), 0.0);
  for (std::size_t i = 0; i < weights_.size(); ++i)
    if ((left -= weights_[i]) < 0) return static_cast<std::int32_t>(i);
  return best;  // u * sum rounded up to sum
}

}  // namespace trireme::train
