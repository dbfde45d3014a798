// Implements preset (trireme/models/transformer_config.h).
// The presets: shapes of published models, and two that train in seconds. The sequence is that of
// most of the pretraining, which the papers name. The numbers are those of the config.json that is
// published with each model; tests compare the counts of parameters.
// GPT-2: Radford et al. 2019. Llama 3, 3.1: arXiv:2407.21783; 3.2: its model cards. Mistral 7B:
// arXiv:2310.06825 (the file of v0.3, which has no sliding window). Qwen2.5: arXiv:2412.15115.
// Qwen3: arXiv:2505.09388.
#include <utility>

#include "trireme/core/error.h"
#include "trireme/models/transformer_config.h"

namespace trireme {
namespace {

TransformerConfig gpt2(Index layers, Index width, Index heads) {
  TransformerConfig c;
  c.num_layers = layers;
  c.hidden_size = width;
  c.num_attention_heads = heads;
  c.vocab_size = 50257;
  c.seq_length = c.max_position_embeddings = 1024;
  return c;
}

TransformerConfig llama(Index layers, Index width, Index heads, Index ffn) {
  TransformerConfig c;
  c.num_layers = layers;
  c.hidden_size = width;
  c.num_attention_heads = heads;
  c.num_query_groups = 8;
  c.ffn_hidden_size = ffn;
  c.vocab_size = 128256;
  c.seq_length = 8192;
  c.normalization = Normalization::rms_norm;
  c.mlp = MlpKind::swiglu;
  c.position = PositionKind::rotary;
  c.rotary_base = 500000;
  c.add_bias_linear = false;
  c.tie_embeddings = false;
  return c;
}

/// Llama 3.1 and later: sequences up to `factor` times as long as those of the first training.
TransformerConfig scaled(TransformerConfig c, float factor) {
  c.rotary_scaling.kind = RotaryScalingKind::llama3;
  c.rotary_scaling.factor = factor;
  return c;
}

TransformerConfig tied(TransformerConfig c) {
  c.tie_embeddings = true;
  return c;
}

TransformerConfig mistral_7b() {
  TransformerConfig c = llama(32, 4096, 32, 14336);
  c.vocab_size = 32768;
  c.rotary_base = 1e6f;
  return c;
}

TransformerConfig qwen2(Index layers, Index width, Index heads, Index groups, Index ffn) {
  TransformerConfig c = llama(layers, width, heads, ffn);
  c.num_query_groups = groups;
  c.vocab_size = 151936;
  c.seq_length = 4096;
  c.rotary_base = 1e6f;
  c.norm_epsilon = 1e-6f;
  c.add_qkv_bias = true;
  return c;
}

TransformerConfig qwen3(Index layers, Index width, Index heads, Index ffn) {
  TransformerConfig c = qwen2(layers, width, heads, 8, ffn);
  c.kv_channels = 128;
  c.add_qkv_bias = false;
  c.qk_layernorm = true;
  return c;
}

/// For bytes, as "tiny" is.
TransformerConfig tiny_llama() {
  TransformerConfig c = llama(4, 128, 4, 384);
  c.num_query_groups = 2;
  c.vocab_size = 256;
  c.seq_length = 128;
  c.rotary_base = 10000;
  c.tie_embeddings = true;
  return c;
}

std::vector<std::pair<std::string, TransformerConfig>> presets() {
  TransformerConfig qwen_7b = qwen2(28, 3584, 28, 4, 18944);
  qwen_7b.vocab_size = 152064;
  const TransformerConfig llama_1b = tied(llama(16, 2048, 32, 8192));
  const TransformerConfig llama_3b = tied(llama(28, 3072, 24, 8192));
  const TransformerConfig llama_8b = llama(32, 4096, 32, 14336);
  return {{"tiny", TransformerConfig{}},
          {"tiny-llama", tiny_llama()},
          {"gpt2-124m", gpt2(12, 768, 12)},
          {"gpt2-355m", gpt2(24, 1024, 16)},
          {"gpt2-774m", gpt2(36, 1280, 20)},
          {"gpt2-1558m", gpt2(48, 1600, 25)},
          {"llama-1b", llama_1b},
          {"llama-8b", llama_8b},
          {"llama-70b", llama(80, 8192, 64, 28672)},
          {"llama-3.1-8b", scaled(llama_8b, 8)},
          {"llama-3.2-1b", scaled(llama_1b, 32)},
          {"llama-3.2-3b", scaled(llama_3b, 32)},
          {"mistral-7b", mistral_7b()},
          {"qwen2.5-0.5b", tied(qwen2(24, 896, 14, 2, 4864))},
          {"qwen2.5-7b", qwen_7b},
          {"qwen3-0.6b", tied(qwen3(28, 1024, 16, 3072))},
          {"qwen3-8b", qwen3(36, 4096, 32, 12288)}};
}

}  // namespace

std::vector<std::string> preset_names() {
  std::vector<std::string> names;
  for (const auto& [name, config] : presets()) names.push_back(name);
  return names;
}

TransformerConfig preset(std::string_view name) {
  std::string names;
  for (const auto& [known, config] : presets()) {
    if (known == name) return config;
    names += (names.empty() ? "" : ", ") + known;
  }
  throw Error(str("there is no model preset \"", name, "\"; there are ", names));
}

}  // namespace trireme
