// Counting and checking a configuration, before anything is built.
#include "trireme/models/transformer_config.h"

#include <tuple>

#include <fmt/format.h>

#include "trireme/core/error.h"

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
    if (!sizes_are_legal() || !model_is_possible())
      return problems_;  // nothing else means anything
    heads();
    positions();
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
        {"TransformerConfig::max_position_embeddings", c_.max_position_embeddings,
         Limits::positions}};
    for (const auto& [field, value, most] : not_negative) {
      if (value < 0) problem("{} {}: at least 1, or 0 for the default", field, value);
      if (value > most) problem("{} {}: at most {}", field, value, most);
    }
    return problems_.empty();
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
    const auto width = static_cast<double>(16 * c_.hidden_size + 4 * c_.ffn());
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
    if (c_.hidden_size % c_.num_attention_heads != 0)
      problem(
          "TransformerConfig::hidden_size {} does not divide by "
          "TransformerConfig::num_attention_heads {}; nearest widths: {}",
          c_.hidden_size, c_.num_attention_heads,
          nearest_multiples(c_.hidden_size, c_.num_attention_heads));
    else if (c_.position == PositionKind::rotary && c_.head_dim() % 2 != 0)
      problem(
          "rotary positions turn pairs of channels, but TransformerConfig::hidden_size {} / "
          "TransformerConfig::num_attention_heads {} is {}, odd; nearest widths: {}",
          c_.hidden_size, c_.num_attention_heads, c_.head_dim(),
          nearest_multiples(c_.hidden_size, 2 * c_.num_attention_heads));
    if (c_.num_attention_heads % c_.kv_heads() != 0)
      problem(
          "TransformerConfig::num_query_groups {} does not divide "
          "TransformerConfig::num_attention_heads {}; legal groups: {}",
          c_.kv_heads(), c_.num_attention_heads, divisors(c_.num_attention_heads));
  }

  void positions() {
    if (c_.position == PositionKind::learned && c_.seq_length > c_.positions())
      problem(
          "TransformerConfig::seq_length {} is longer than the learned positions, "
          "TransformerConfig::max_position_embeddings {}; at most {}, or more positions",
          c_.seq_length, c_.positions(), c_.positions());
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

namespace {

/// As in every checkpoint so far: not the word of the command line.
const char* identity_of(PositionKind kind) {
  return kind == PositionKind::learned ? "learned" : "rotary";
}

}  // namespace

const char* name(Normalization kind) {
  switch (kind) {
    case Normalization::layer_norm:
      return "LayerNorm";
    case Normalization::rms_norm:
      return "RMSNorm";
  }
  return "";
}
const char* name(MlpKind kind) {
  switch (kind) {
    case MlpKind::gelu_tanh:
      return "gelu-tanh";
    case MlpKind::gelu_erf:
      return "gelu-erf";
    case MlpKind::swiglu:
      return "swiglu";
  }
  return "";
}
const char* name(PositionKind kind) {
  switch (kind) {
    case PositionKind::learned:
      return "learned_absolute";
    case PositionKind::rotary:
      return "rope";
  }
  return "";
}
const char* name(RecomputeGranularity granularity) {
  switch (granularity) {
    case RecomputeGranularity::none:
      return "none";
    case RecomputeGranularity::selective:
      return "selective";
    case RecomputeGranularity::full:
      return "full";
  }
  return "";
}

Index TransformerConfig::parameter_count() const {
  const auto linear = [&](Index in, Index out) { return in * out + (add_bias_linear ? out : 0); };
  const Index one_norm = hidden_size * (normalization == Normalization::layer_norm ? 2 : 1);
  const Index kv = kv_heads() * head_dim();
  const Index attention = linear(hidden_size, hidden_size) + 2 * linear(hidden_size, kv) +
                          linear(hidden_size, hidden_size);
  const Index feed_forward =
      (mlp == MlpKind::swiglu ? 2 : 1) * linear(hidden_size, ffn()) + linear(ffn(), hidden_size);
  const Index tables =
      (tie_embeddings ? 1 : 2) * vocab_size + (position == PositionKind::learned ? positions() : 0);
  return tables * hidden_size + num_layers * (2 * one_norm + attention + feed_forward) + one_norm;
}

double TransformerConfig::flops_per_token() const {
  return 6.0 * static_cast<double>(parameter_count()) +
         12.0 * static_cast<double>(num_layers * hidden_size) * static_cast<double>(seq_length);
}

std::string TransformerConfig::describe() const {
  return fmt::format(
      "{} layers, width {}, {} heads in {} groups, {} {}, {}, {} positions, sequence {}, "
      "vocabulary {}, {} embeddings: {} parameters",
      num_layers, hidden_size, num_attention_heads, kv_heads(), name(mlp), ffn(),
      name(normalization), identity_of(position), seq_length, vocab_size,
      tie_embeddings ? "tied" : "separate", parameter_count());
}

std::vector<std::pair<std::string, std::string>> TransformerConfig::identity() const {
  const auto whole = [](Index value) { return fmt::format("{}", value); };
  const auto yes = [](bool value) { return std::string(value ? "true" : "false"); };
  std::vector<std::pair<std::string, std::string>> all{
      {"TransformerConfig::num_layers", whole(num_layers)},
      {"TransformerConfig::hidden_size", whole(hidden_size)},
      {"TransformerConfig::ffn_hidden_size", whole(ffn())},
      {"TransformerConfig::num_attention_heads", whole(num_attention_heads)},
      {"TransformerConfig::num_query_groups", whole(kv_heads())},
      {"TransformerConfig::vocab_size", whole(vocab_size)},
      {"TransformerConfig::normalization", name(normalization)},
      {"TransformerConfig::norm_epsilon", fmt::format("{}", norm_epsilon)},
      {"TransformerConfig::mlp", name(mlp)},
      {"TransformerConfig::position", identity_of(position)},
      {"TransformerConfig::add_bias_linear", yes(add_bias_linear)},
      {"TransformerConfig::tie_embeddings", yes(tie_embeddings)}};
  if (position == PositionKind::learned)
    all.emplace_back("TransformerConfig::max_position_embeddings", whole(positions()));
  else
    all.emplace_back("TransformerConfig::rotary_base", fmt::format("{}", rotary_base));
  return all;
}

std::vector<std::string> problems_of(const TransformerConfig& config, Index tensor_size,
                                     Index micro_batch_size) {
  return Check(config, tensor_size, micro_batch_size).run();
}

}  // namespace trireme
