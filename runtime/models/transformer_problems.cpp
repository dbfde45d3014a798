// Checking a configuration, before anything is built.
#include <algorithm>
#include <cmath>
#include <tuple>

#include <fmt/format.h>

#include "trireme/models/transformer_config.h"

#include "runtime/models/kinds.h"
#include "runtime/models/transformer_limits.h"

namespace trireme {
namespace {

/// "4 or 8": the multiples of `step` on both sides of `value`, none below `step`.
std::string nearest_multiples(Index value, Index step) {
  const Index below = value / step * step;
  return below < step ? fmt::format("{}", step) : fmt::format("{} or {}", below, below + step);
}

/// "1, 2, 3 or 6"
std::string divisors(Index value) {
  std::string all;
  for (Index d = 1; d <= value; ++d)
    if (value % d == 0)
      all += fmt::format("{}{}", all.empty() ? "" : d == value ? " or " : ", ", d);
  return all;
}

using Limits = TransformerLimits;

class Check {
 public:
  Check(const TransformerConfig& config, Index tensor_size, Index micro_batch_size)
      : c_(config), tensor_size_(tensor_size), micro_batch_size_(micro_batch_size) {}

  std::vector<std::string> run() {
    if (!sizes_are_legal() || !numbers_are_finite() || !model_is_possible())
      return problems_;  // nothing else means anything
    heads();
    positions();
    rotary_scaling();
    if (tensor_size_ > 1) tensor_axis();
    head();
    rates();
    return problems_;
  }

 private:
  template <class... Args>
  void problem(fmt::format_string<Args...> text, Args&&... args) {
    problems_.push_back(fmt::format(text, std::forward<Args>(args)...));
  }

  bool sizes_are_legal() {
    const std::tuple<const char*, Index, Index> positive[] = {
        {"TransformerConfig::num_layers", c_.num_layers, Limits::layers},
        {"TransformerConfig::hidden_size", c_.hidden_size, Limits::channels},
        {"TransformerConfig::num_attention_heads", c_.num_attention_heads, Limits::heads},
        {"TransformerConfig::vocab_size", c_.vocab_size, Limits::vocabulary},
        {"TransformerConfig::seq_length", c_.seq_length, Limits::sequence},
        {"micro_batch_size", micro_batch_size_, Limits::micro_batch},
        {"tensor_size", tensor_size_, Limits::tensor_size}};
    for (const auto& [field, value, most] : positive) {
      if (value < 1) problem("{} {}: at least 1", field, value);
      if (value > most) problem("{} {}: at most {}", field, value, most);
    }
    const std::tuple<const char*, Index, Index> not_negative[] = {
        {"TransformerConfig::ffn_hidden_size", c_.ffn_hidden_size, Limits::mlp_channels},
        {"TransformerConfig::num_query_groups", c_.num_query_groups, Limits::heads},
        {"TransformerConfig::kv_channels", c_.kv_channels, Limits::channels},
        {"TransformerConfig::max_position_embeddings", c_.max_position_embeddings,
         Limits::positions}};
    for (const auto& [field, value, most] : not_negative) {
      if (value < 0) problem("{} {}: at least 1, or 0 for the default", field, value);
      if (value > most) problem("{} {}: at most {}", field, value, most);
    }
    if (problems_.empty()) attention_is_possible();
    return problems_.empty();
  }

  bool numbers_are_finite() {
    const RotaryScaling& s = c_.rotary_scaling;
    const std::pair<const char*, float> numbers[] = {
        {"TransformerConfig::init_std", c_.init_std},
        {"TransformerConfig::norm_epsilon", c_.norm_epsilon},
        {"TransformerConfig::rotary_base", c_.rotary_base},
        {"TransformerConfig::hidden_dropout", c_.hidden_dropout},
        {"RotaryScaling::factor", s.factor},
        {"RotaryScaling::low_frequency_factor", s.low_frequency_factor},
        {"RotaryScaling::high_frequency_factor", s.high_frequency_factor},
        {"RotaryScaling::beta_fast", s.beta_fast},
        {"RotaryScaling::beta_slow", s.beta_slow},
        {"RotaryScaling::attention_factor", s.attention_factor}};
    for (const auto& [field, value] : numbers)
      if (!std::isfinite(value)) problem("{} {}: a finite number is needed", field, value);
    return problems_.empty();
  }

  void attention_is_possible() {
    const Index heads = std::max(c_.num_attention_heads, c_.kv_heads());
    if (heads * c_.head_dim() > Limits::attention_channels)
      problem(
          "TransformerConfig::num_attention_heads {} in TransformerConfig::num_query_groups {} of "
          "TransformerConfig::kv_channels {} are {} channels; at most {}",
          c_.num_attention_heads, c_.kv_heads(), c_.head_dim(), heads * c_.head_dim(),
          Limits::attention_channels);
  }

  /// Sizes far beyond any machine are rejected before bytes are counted, because their sums would
  /// overflow.
  bool model_is_possible() {
    const Index rows = micro_batch_size_ * c_.seq_length;
    if (c_.parameter_count() > Limits::parameters)
      problem(
          "TransformerConfig::num_layers {}, TransformerConfig::hidden_size {}, "
          "TransformerConfig::ffn_hidden_size {} and TransformerConfig::vocab_size {} are {} "
          "parameters; at most {}",
          c_.num_layers, c_.hidden_size, c_.ffn(), c_.vocab_size, c_.parameter_count(),
          Limits::parameters);
    if (rows > Limits::rows)
      problem(
          "micro_batch_size {} x TransformerConfig::seq_length {} are {} token rows; at most {}",
          micro_batch_size_, c_.seq_length, rows, Limits::rows);
    const auto width =
        static_cast<double>(16 * std::max(c_.hidden_size, c_.attention_width()) + 4 * c_.ffn());
    const double activations =
        static_cast<double>(rows) *
        (static_cast<double>(c_.num_layers) * width + static_cast<double>(c_.vocab_size));
    if (problems_.empty() && activations > Limits::activations)
      problem(
          "micro_batch_size {} x TransformerConfig::seq_length {} tokens in "
          "TransformerConfig::num_layers {} of TransformerConfig::hidden_size {}, "
          "TransformerConfig::ffn_hidden_size {} and TransformerConfig::vocab_size {} are about "
          "{:.0e} activations; at most {:.0e}",
          micro_batch_size_, c_.seq_length, c_.num_layers, c_.hidden_size, c_.ffn(), c_.vocab_size,
          activations, Limits::activations);
    return problems_.empty();
  }

  void heads() {
    if (c_.kv_channels == 0)
      divided_width();
    else if (is_rotary(c_.position) && c_.kv_channels % 2 != 0)
      problem(
          "rotary positions turn pairs of channels, but TransformerConfig::kv_channels {} is odd; "
          "nearest: {}",
          c_.kv_channels, nearest_multiples(c_.kv_channels, 2));
    if (c_.num_attention_heads % c_.kv_heads() != 0)
      problem(
          "TransformerConfig::num_query_groups {} does not divide "
          "TransformerConfig::num_attention_heads {}; legal groups: {}",
          c_.kv_heads(), c_.num_attention_heads, divisors(c_.num_attention_heads));
  }

  /// Heads whose size is the width / heads.
  void divided_width() {
    if (c_.hidden_size % c_.num_attention_heads != 0)
      problem(
          "TransformerConfig::hidden_size {} does not divide by "
          "TransformerConfig::num_attention_heads {}; nearest widths: {}; or give "
          "TransformerConfig::kv_channels, the channels of a head",
          c_.hidden_size, c_.num_attention_heads,
          nearest_multiples(c_.hidden_size, c_.num_attention_heads));
    else if (is_rotary(c_.position) && c_.head_dim() % 2 != 0)
      problem(
          "rotary positions turn pairs of channels, but TransformerConfig::hidden_size {} / "
          "TransformerConfig::num_attention_heads {} is {}, odd; nearest widths: {}",
          c_.hidden_size, c_.num_attention_heads, c_.head_dim(),
          nearest_multiples(c_.hidden_size, 2 * c_.num_attention_heads));
  }

  void positions() {
    if (is_learned(c_.position) && c_.seq_length > c_.positions())
      problem(
          "TransformerConfig::seq_length {} is longer than the learned positions, "
          "TransformerConfig::max_position_embeddings {}; at most {}, or more positions",
          c_.seq_length, c_.positions(), c_.positions());
  }

  void rotary_scaling() {
    const RotaryScaling& s = c_.rotary_scaling;
    if (!is_rotary(c_.position) || !is_scaled(s.kind)) return;
    if (!(s.factor >= 1)) problem("RotaryScaling::factor {}: at least 1", s.factor);
    if (!reads_original_positions(s.kind)) return;
    if (s.original_positions < 1 || s.original_positions > Limits::positions)
      problem("RotaryScaling::original_positions {}: from 1 to {}", s.original_positions,
              Limits::positions);
    switch (s.kind) {
      case RotaryScalingKind::none:
      case RotaryScalingKind::linear:
        return;
      case RotaryScalingKind::llama3:
        return llama3(s);
      case RotaryScalingKind::yarn:
        return yarn(s);
    }
  }

  void llama3(const RotaryScaling& s) {
    if (!(s.low_frequency_factor > 0 && s.high_frequency_factor > s.low_frequency_factor))
      problem(
          "RotaryScaling::low_frequency_factor {} and RotaryScaling::high_frequency_factor {}: "
          "above 0, the second above the first",
          s.low_frequency_factor, s.high_frequency_factor);
  }

  void yarn(const RotaryScaling& s) {
    if (!(s.beta_slow > 0 && s.beta_fast > s.beta_slow))
      problem(
          "RotaryScaling::beta_fast {} and RotaryScaling::beta_slow {}: above 0, the first "
          "above the second",
          s.beta_fast, s.beta_slow);
    if (!(s.attention_factor >= 0))
      problem("RotaryScaling::attention_factor {}: above 0, or 0 for 0.1 ln(factor) + 1",
              s.attention_factor);
    if (!(c_.rotary_base > 1))
      problem("TransformerConfig::rotary_base {}: above 1 for RotaryScaling::kind yarn",
              c_.rotary_base);
  }

  void divides_by_tensor_size(const char* field, Index value) {
    if (value % tensor_size_ != 0)
      problem("{} {} does not divide by tensor_size {}; nearest: {}, or a tensor size of {}", field,
              value, tensor_size_, nearest_multiples(value, tensor_size_), divisors(value));
  }

  void tensor_axis() {
    divides_by_tensor_size("TransformerConfig::num_attention_heads", c_.num_attention_heads);
    if (c_.kv_heads() != c_.num_attention_heads)
      divides_by_tensor_size("TransformerConfig::num_query_groups", c_.kv_heads());
    divides_by_tensor_size("TransformerConfig::ffn_hidden_size", c_.ffn());
    const Index rows = micro_batch_size_ * c_.seq_length;
    if (c_.sequence_parallel == SequenceParallel::on && rows % tensor_size_ != 0)
      problem(
          "TransformerConfig::sequence_parallel splits the micro_batch_size {} x "
          "TransformerConfig::seq_length {} = {} token rows over tensor_size {}, which does not "
          "divide them; nearest sequence lengths: {}",
          micro_batch_size_, c_.seq_length, rows, tensor_size_,
          nearest_multiples(c_.seq_length, tensor_size_));
  }

  void head() {
    const Index rows = micro_batch_size_ * c_.seq_length;
    if (c_.lm_head_chunks < 1 || c_.lm_head_chunks > rows)
      problem(
          "TransformerConfig::lm_head_chunks {} cuts the micro_batch_size {} x "
          "TransformerConfig::seq_length {} = {} token rows; at least 1 and at most {}",
          c_.lm_head_chunks, micro_batch_size_, c_.seq_length, rows, rows);
  }

  void rates() {
    if (!(c_.hidden_dropout >= 0 && c_.hidden_dropout < 1))
      problem("TransformerConfig::hidden_dropout {}: at least 0 and below 1", c_.hidden_dropout);
    if (!(c_.init_std > 0)) problem("TransformerConfig::init_std {}: above 0", c_.init_std);
    if (!(c_.norm_epsilon > 0))
      problem("TransformerConfig::norm_epsilon {}: above 0", c_.norm_epsilon);
    if (!(c_.rotary_base > 0))
      problem("TransformerConfig::rotary_base {}: above 0", c_.rotary_base);
  }

  const TransformerConfig& c_;
  Index tensor_size_, micro_batch_size_;
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> problems_of(const TransformerConfig& config, Index tensor_size,
                                     Index micro_batch_size) {
  return Check(config, tensor_size, micro_batch_size).run();
}

}  // namespace trireme
