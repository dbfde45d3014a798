// Counting and describing a configuration, before anything is built.
#include "trireme/models/transformer_config.h"

#include <fmt/format.h>

#include "runtime/models/kinds.h"

namespace trireme {
namespace {

/// As in every checkpoint so far: not the word of the command line.
const char* identity_of(PositionKind kind) {
  switch (kind) {
    case PositionKind::learned:
      return "learned";
    case PositionKind::rotary:
      return "rotary";
  }
  return "";
}

bool has_own_qkv_bias(const TransformerConfig& c) {
  return c.add_qkv_bias && !c.add_bias_linear && !c.add_attention_bias;
}
bool has_own_attention_bias(const TransformerConfig& c) {
  return c.add_attention_bias && !c.add_bias_linear;
}

bool is_scaled(const TransformerConfig& c) {
  return is_rotary(c.position) && is_scaled(c.rotary_scaling.kind);
}

using Identity = std::vector<std::pair<std::string, std::string>>;
constexpr TransformerNames option;

void add_number(Identity& all, const char* name, float value) {
  all.emplace_back(name, fmt::format("{}", value));
}

/// Only what this kind reads.
void add_scaling(Identity& all, const RotaryScaling& s) {
  all.emplace_back(option.kind, name(s.kind));
  add_number(all, option.factor, s.factor);
  if (reads_original_positions(s.kind))
    all.emplace_back(option.original_positions, fmt::format("{}", s.original_positions));
  switch (s.kind) {
    case RotaryScalingKind::none:
    case RotaryScalingKind::linear:
      break;
    case RotaryScalingKind::llama3:
      add_number(all, option.low_frequency_factor, s.low_frequency_factor);
      add_number(all, option.high_frequency_factor, s.high_frequency_factor);
      break;
    case RotaryScalingKind::yarn:
      add_number(all, option.beta_fast, s.beta_fast);
      add_number(all, option.beta_slow, s.beta_slow);
      add_number(all, option.attention_factor, static_cast<float>(rotary_amplitude(s)));
      if (!s.truncate) all.emplace_back("--yarn-no-truncate", "true");
      break;
  }
}

/// What checkpoints of the first releases do not have: left out where it is as it was then, so that
/// they load.
void add_later_facts(Identity& all, const TransformerConfig& c) {
  if (c.attention_width() != c.hidden_size)
    all.emplace_back(option.kv_channels, fmt::format("{}", c.head_dim()));
  if (has_own_qkv_bias(c)) all.emplace_back("--add-qkv-bias", "true");
  if (has_own_attention_bias(c)) all.emplace_back("--add-attention-bias", "true");
  if (c.qk_layernorm) all.emplace_back("--qk-layernorm", "true");
  if (is_scaled(c)) add_scaling(all, c.rotary_scaling);
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
  const Index norm_vectors = has_bias(normalization) ? 2 : 1;
  const Index one_norm = norm_vectors * hidden_size;
  const Index qkv = attention_width() + 2 * kv_heads() * head_dim();
  const Index attention = linear(hidden_size, qkv) + linear(attention_width(), hidden_size) +
                          (has_own_qkv_bias(*this) ? qkv : 0) +
                          (has_own_attention_bias(*this) ? qkv + hidden_size : 0) +
                          (qk_layernorm ? 2 * norm_vectors * head_dim() : 0);
  const Index feed_forward =
      (is_gated(mlp) ? 2 : 1) * linear(hidden_size, ffn()) + linear(ffn(), hidden_size);
  const Index tables =
      (tie_embeddings ? 1 : 2) * vocab_size + (is_learned(position) ? positions() : 0);
  return tables * hidden_size + num_layers * (2 * one_norm + attention + feed_forward) + one_norm;
}

double TransformerConfig::flops_per_token() const {
  return 6.0 * static_cast<double>(parameter_count()) +
         6.0 * static_cast<double>(num_layers * attention_width()) *
             static_cast<double>(seq_length);
}

std::string TransformerConfig::describe() const {
  std::string heads = fmt::format("{} heads in {} groups", num_attention_heads, kv_heads());
  if (attention_width() != hidden_size) heads += fmt::format(" of {} channels", head_dim());
  if (has_own_qkv_bias(*this)) heads += " with biases";
  if (has_own_attention_bias(*this)) heads += " with biases also of their output";
  if (qk_layernorm) heads += " with norms";
  std::string positions = identity_of(position);
  if (is_scaled(*this))
    positions += fmt::format(" ({} x {})", name(rotary_scaling.kind), rotary_scaling.factor);
  return fmt::format(
      "{} layers, width {}, {}, {} {}, {}, {} positions, sequence {}, vocabulary {}, {} "
      "embeddings: {} parameters",
      num_layers, hidden_size, heads, name(mlp), ffn(), name(normalization), positions, seq_length,
      vocab_size, tie_embeddings ? "tied" : "separate", parameter_count());
}

std::vector<std::pair<std::string, std::string>> TransformerConfig::identity() const {
  const auto whole = [](Index value) { return fmt::format("{}", value); };
  const auto yes = [](bool value) { return std::string(value ? "true" : "false"); };
  std::vector<std::pair<std::string, std::string>> all{
      {option.num_layers, whole(num_layers)},
      {option.hidden_size, whole(hidden_size)},
      {option.ffn_hidden_size, whole(ffn())},
      {option.num_attention_heads, whole(num_attention_heads)},
      {option.num_query_groups, whole(kv_heads())},
      {option.vocab_size, whole(vocab_size)},
      {option.normalization, name(normalization)},
      {option.norm_epsilon, fmt::format("{}", norm_epsilon)},
      {option.mlp, name(mlp)},
      {option.position, identity_of(position)},
      {"--disable-bias-linear", yes(!add_bias_linear)},
      {"--untie-embeddings-and-output-weights", yes(!tie_embeddings)}};
  if (is_learned(position))
    all.emplace_back(option.max_position_embeddings, whole(positions()));
  else
    all.emplace_back(option.rotary_base, fmt::format("{}", rotary_base));
  add_later_facts(all, *this);
  return all;
}

}  // namespace trireme
