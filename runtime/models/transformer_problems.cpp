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
  Check(const TransformerConfig& config, Index tensor_size, Index micro_batch_size,
        const TransformerNames& names)
      : c_(config), tensor_size_(tensor_size), micro_batch_size_(micro_batch_size), n_(names) {}

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
        {n_.num_layers, c_.num_layers, Limits::layers},
        {n_.hidden_size, c_.hidden_size, Limits::channels},
        {n_.num_attention_heads, c_.num_attention_heads, Limits::heads},
        {n_.vocab_size, c_.vocab_size, Limits::vocabulary},
        {n_.seq_length, c_.seq_length, Limits::sequence},
        {n_.micro_batch_size, micro_batch_size_, Limits::micro_batch},
        {n_.tensor_size, tensor_size_, Limits::tensor_size}};
    for (const auto& [field, value, most] : positive) {
      if (value < 1) problem("{} {}: at least 1", field, value);
      if (value > most) problem("{} {}: at most {}", field, value, most);
    }
    const std::tuple<const char*, Index, Index> not_negative[] = {
        {n_.ffn_hidden_size, c_.ffn_hidden_size, Limits::mlp_channels},
        {n_.num_query_groups, c_.num_query_groups, Limits::heads},
        {n_.kv_channels, c_.kv_channels, Limits::channels},
        {n_.max_position_embeddings, c_.max_position_embeddings, Limits::positions}};
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
        {n_.init_std, c_.init_std},
        {n_.norm_epsilon, c_.norm_epsilon},
        {n_.rotary_base, c_.rotary_base},
        {n_.hidden_dropout, c_.hidden_dropout},
        {n_.factor, s.factor},
        {n_.low_frequency_factor, s.low_frequency_factor},
        {n_.high_frequency_factor, s.high_frequency_factor},
        {n_.beta_fast, s.beta_fast},
        {n_.beta_slow, s.beta_slow},
        {n_.attention_factor, s.attention_factor}};
    for (const auto& [field, value] : numbers)
      if (!std::isfinite(value)) problem("{} {}: a finite number is needed", field, value);
    return problems_.empty();
  }

  void attention_is_possible() {
    const Index heads = std::max(c_.num_attention_heads, c_.kv_heads());
    if (heads * c_.head_dim() > Limits::attention_channels)
      problem("{} {} in {} {} of {} {} are {} channels; at most {}", n_.num_attention_heads,
              c_.num_attention_heads, n_.num_query_groups, c_.kv_heads(), n_.kv_channels,
              c_.head_dim(), heads * c_.head_dim(), Limits::attention_channels);
  }

  /// Sizes far beyond any machine are rejected before bytes are counted, because their sums would
  /// overflow.
  bool model_is_possible() {
    const Index rows = micro_batch_size_ * c_.seq_length;
    if (c_.parameter_count() > Limits::parameters)
      problem("{} {}, {} {}, {} {} and {} {} are {} parameters; at most {}", n_.num_layers,
              c_.num_layers, n_.hidden_size, c_.hidden_size, n_.ffn_hidden_size, c_.ffn(),
              n_.vocab_size, c_.vocab_size, c_.parameter_count(), Limits::parameters);
    if (rows > Limits::rows)
      problem("{} {} x {} {} are {} token rows; at most {}", n_.micro_batch_size, micro_batch_size_,
              n_.seq_length, c_.seq_length, rows, Limits::rows);
    const auto width =
        static_cast<double>(16 * std::max(c_.hidden_size, c_.attention_width()) + 4 * c_.ffn());
    const double activations =
        static_cast<double>(rows) *
        (static_cast<double>(c_.num_layers) * width + static_cast<double>(c_.vocab_size));
    if (problems_.empty() && activations > Limits::activations)
      problem(
          "{} {} x {} {} tokens in {} {} of {} {}, {} {} and {} {} are about {:.0e} activations; "
          "at most {:.0e}",
          n_.micro_batch_size, micro_batch_size_, n_.seq_length, c_.seq_length, n_.num_layers,
          c_.num_layers, n_.hidden_size, c_.hidden_size, n_.ffn_hidden_size, c_.ffn(),
          n_.vocab_size, c_.vocab_size, activations, Limits::activations);
    return problems_.empty();
  }

  void heads() {
    if (c_.kv_channels == 0)
      divided_width();
    else if (is_rotary(c_.position) && c_.kv_channels % 2 != 0)
      problem("rotary positions turn pairs of channels, but {} {} is odd; nearest: {}",
              n_.kv_channels, c_.kv_channels, nearest_multiples(c_.kv_channels, 2));
    if (c_.num_attention_heads % c_.kv_heads() != 0)
      problem("{} {} does not divide {} {}; legal groups: {}", n_.num_query_groups, c_.kv_heads(),
              n_.num_attention_heads, c_.num_attention_heads, divisors(c_.num_attention_heads));
  }

  /// Heads whose size is the width / heads.
  void divided_width() {
    if (c_.hidden_size % c_.num_attention_heads != 0)
      problem(
          "{} {} does not divide by {} {}; nearest widths: {}; or give {}, the channels of a head",
          n_.hidden_size, c_.hidden_size, n_.num_attention_heads, c_.num_attention_heads,
          nearest_multiples(c_.hidden_size, c_.num_attention_heads), n_.kv_channels);
    else if (is_rotary(c_.position) && c_.head_dim() % 2 != 0)
      problem(
          "rotary positions turn pairs of channels, but {} {} / {} {} is {}, odd; nearest widths: "
          "{}",
          n_.hidden_size, c_.hidden_size, n_.num_attention_heads, c_.num_attention_heads,
          c_.head_dim(), nearest_multiples(c_.hidden_size, 2 * c_.num_attention_heads));
  }

  void positions() {
    if (is_learned(c_.position) && c_.seq_length > c_.positions())
      problem("{} {} is longer than the learned positions, {} {}; at most {}, or more positions",
              n_.seq_length, c_.seq_length, n_.max_position_embeddings, c_.positions(),
              c_.positions());
  }

  void rotary_scaling() {
    const RotaryScaling& s = c_.rotary_scaling;
    if (!is_rotary(c_.position) || !is_scaled(s.kind)) return;
    if (!(s.factor >= 1)) problem("{} {}: at least 1", n_.factor, s.factor);
    if (!reads_original_positions(s.kind)) return;
    if (s.original_positions < 1 || s.original_positions > Limits::positions)
      problem("{} {}: from 1 to {}", n_.original_positions, s.original_positions,
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
      problem("{} {} and {} {}: above 0, the second above the first", n_.low_frequency_factor,
              s.low_frequency_factor, n_.high_frequency_factor, s.high_frequency_factor);
  }

  void yarn(const RotaryScaling& s) {
    if (!(s.beta_slow > 0 && s.beta_fast > s.beta_slow))
      problem("{} {} and {} {}: above 0, the first above the second", n_.beta_fast, s.beta_fast,
              n_.beta_slow, s.beta_slow);
    if (!(s.attention_factor >= 0))
      problem("{} {}: above 0, or 0 for 0.1 ln(factor) + 1", n_.attention_factor,
              s.attention_factor);
    if (!(c_.rotary_base > 1))
      problem("{} {}: above 1 for {} yarn", n_.rotary_base, c_.rotary_base, n_.kind);
  }

  void divides_by_tensor_size(const char* field, Index value) {
    if (value % tensor_size_ != 0)
      problem("{} {} does not divide by {} {}; nearest: {}, or a tensor size of {}", field, value,
              n_.tensor_size, tensor_size_, nearest_multiples(value, tensor_size_),
              divisors(value));
  }

  void tensor_axis() {
    divides_by_tensor_size(n_.num_attention_heads, c_.num_attention_heads);
    if (c_.kv_heads() != c_.num_attention_heads)
      divides_by_tensor_size(n_.num_query_groups, c_.kv_heads());
    divides_by_tensor_size(n_.ffn_hidden_size, c_.ffn());
    const Index rows = micro_batch_size_ * c_.seq_length;
    if (c_.sequence_parallel == SequenceParallel::on && rows % tensor_size_ != 0)
      problem(
          "{} splits the {} {} x {} {} = {} token rows over {} {}, which does not divide them; "
          "nearest sequence lengths: {}",
          n_.sequence_parallel, n_.micro_batch_size, micro_batch_size_, n_.seq_length,
          c_.seq_length, rows, n_.tensor_size, tensor_size_,
          nearest_multiples(c_.seq_length, tensor_size_));
  }

  void head() {
    const Index rows = micro_batch_size_ * c_.seq_length;
    if (c_.lm_head_chunks < 1 || c_.lm_head_chunks > rows)
      problem("{} {} cuts the {} {} x {} {} = {} token rows; at least 1 and at most {}",
              n_.lm_head_chunks, c_.lm_head_chunks, n_.micro_batch_size, micro_batch_size_,
              n_.seq_length, c_.seq_length, rows, rows);
  }

  void rates() {
    if (!(c_.hidden_dropout >= 0 && c_.hidden_dropout < 1))
      problem("{} {}: at least 0 and below 1", n_.hidden_dropout, c_.hidden_dropout);
    if (!(c_.init_std > 0)) problem("{} {}: above 0", n_.init_std, c_.init_std);
    if (!(c_.norm_epsilon > 0)) problem("{} {}: above 0", n_.norm_epsilon, c_.norm_epsilon);
    if (!(c_.rotary_base > 0)) problem("{} {}: above 0", n_.rotary_base, c_.rotary_base);
  }

  const TransformerConfig& c_;
  Index tensor_size_, micro_batch_size_;
  const TransformerNames& n_;
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> problems_of(const TransformerConfig& config, Index tensor_size,
                                     Index micro_batch_size, const TransformerNames& names) {
  return Check(config, tensor_size, micro_batch_size, names).run();
}

}  // namespace trireme
