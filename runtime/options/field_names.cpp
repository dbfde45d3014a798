#include "runtime/options/field_names.h"

#include <algorithm>
#include <cctype>

namespace trireme {
namespace {

constexpr FieldName all_names[] = {
    {"TransformerConfig::num_layers", "--num-layers"},
    {"TransformerConfig::hidden_size", "--hidden-size"},
    {"TransformerConfig::ffn_hidden_size", "--ffn-hidden-size"},
    {"TransformerConfig::num_attention_heads", "--num-attention-heads"},
    {"TransformerConfig::num_query_groups", "--num-query-groups"},
    {"TransformerConfig::kv_channels", "--kv-channels"},
    {"TransformerConfig::vocab_size", "--vocab-size"},
    {"TransformerConfig::seq_length", "--seq-length"},
    {"TransformerConfig::max_position_embeddings", "--max-position-embeddings"},
    {"TransformerConfig::normalization", "--normalization"},
    {"TransformerConfig::norm_epsilon", "--norm-epsilon"},
    {"TransformerConfig::mlp", "--activation"},
    {"TransformerConfig::position", "--position-embedding-type"},
    {"TransformerConfig::rotary_base", "--rotary-base"},
    {"RotaryScaling::kind", "--rope-type"},
    {"RotaryScaling::factor", "--rope-scaling-factor"},
    {"RotaryScaling::original_positions", "--rope-original-positions"},
    {"RotaryScaling::low_frequency_factor", "--rope-low-freq-factor"},
    {"RotaryScaling::high_frequency_factor", "--rope-high-freq-factor"},
    {"RotaryScaling::beta_fast", "--yarn-beta-fast"},
    {"RotaryScaling::beta_slow", "--yarn-beta-slow"},
    {"RotaryScaling::attention_factor", "--yarn-attention-factor"},
    {"RotaryScaling::truncate", "--yarn-no-truncate", true},
    {"TransformerConfig::add_qkv_bias", "--add-qkv-bias"},
    {"TransformerConfig::add_attention_bias", "--add-attention-bias"},
    {"TransformerConfig::qk_layernorm", "--qk-layernorm"},
    {"TransformerConfig::add_bias_linear", "--disable-bias-linear", true},
    {"TransformerConfig::tie_embeddings", "--untie-embeddings-and-output-weights", true},
    {"TransformerConfig::hidden_dropout", "--hidden-dropout"},
    {"TransformerConfig::init_std", "--init-method-std"},
    {"TransformerConfig::recompute", "--recompute-granularity"},
    {"TransformerConfig::sequence_parallel", "--sequence-parallel"},
    {"TransformerConfig::attention_kernels", "--attention"},
    {"TransformerConfig::lm_head_chunks", "--lm-head-chunks"},
    {"micro_batch_size", "--micro-batch-size"},
    {"tensor_size", "--tensor-model-parallel-size"},
    {"AttentionChoice::automatic", "--attention auto"},
    {"DType::bf16", "--bf16"},
    {"DType::f32", "f32 (without --bf16)"},
    {"OptimizerOptions::beta1", "--adam-beta1"},
    {"OptimizerOptions::beta2", "--adam-beta2"},
    {"OptimizerOptions::epsilon", "--adam-eps"},
    {"OptimizerOptions::momentum", "--momentum"},
    {"OptimizerOptions::weight_decay", "--weight-decay"},
    {"OptimizerOptions::clip_norm", "--clip-grad"},
    {"LearningRateOptions::lr", "--lr"},
    {"LearningRateOptions::min_lr", "--min-lr"},
    {"LearningRateOptions::warmup_iters", "--lr-warmup-iters"},
    {"LearningRateOptions::decay_iters", "--lr-decay-iters"},
    {"LearningRateOptions::wsd_decay_iters", "--lr-wsd-decay-iters"},
    {"parse_split", "--split"},
    {"parse_data_path", "--data-path"},
    {"Split::weights", "--split"},
    {"PrepareOptions::append_eod", "--append-eod"},
    {"PrepareOptions::prepend_bos", "--prepend-bos"},
    {"PrepareOptions::inputs", "--input"},
    {"PrepareOptions::format", "--format"},
    {"PrepareOptions::json_keys", "--json-keys"},
    {"PrepareOptions::prefix", "--output"},
    {"TextEncoder::hash", "--tokenizer"},
    {"TokenOptions::sequence_length", "--seq-length"},
    {"PlanOptions::guard", "--check-finite"},
    {"TrainingSpec::micro_batch_size", "--micro-batch-size"},
    {"TrainingSpec::global_batch_size", "--global-batch-size"},
    {"TrainingSpec::stage_speeds", "--stage-speeds"},
    {"TrainingSpec::groups", "--freeze"},
    {"TrainingSpec::data_parallel_shares", "--data-parallel-shares"},
    {"TrainingSpec::optimizer_shares", "--optimizer-shares"},
};

bool in_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == ':';
}

/// Characters that may precede a name in a sentence; a path has '/' or '.' there.
bool may_precede(char c) { return c == ' ' || c == '(' || c == '\n' || c == '\'' || c == '"'; }

}  // namespace

std::span<const FieldName> field_names() { return all_names; }

std::string with_options(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i;
    while (end < text.size() && in_name(text[end])) ++end;
    std::string_view word = text.substr(i, end - i);
    while (word.ends_with(':')) word.remove_suffix(1);
    const auto found = std::find_if(std::begin(all_names), std::end(all_names),
                                    [&](const FieldName& name) { return name.field == word; });
    const bool at_begin = i == 0 || may_precede(text[i - 1]);
    if (at_begin && found != std::end(all_names)) {
      result += found->option;
      i += word.size();
    }
    result += text.substr(i, std::max(end, i + 1) - i);
    i = std::max(end, i + 1);
  }
  return result;
}

KeyValues as_options(const KeyValues& fields) {
  KeyValues options;
  for (const auto& [field, value] : fields) {
    const bool opposite = std::any_of(
        std::begin(all_names), std::end(all_names),
        [&of = field](const FieldName& name) { return name.field == of && name.opposite; });
    const bool negates = opposite && (value == "true" || value == "false");
    options.emplace_back(with_options(field), !negates          ? value
                                              : value == "true" ? "false"
                                                                : "true");
  }
  return options;
}

}  // namespace trireme
