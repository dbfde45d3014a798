// Implements preset (trireme/models/transformer_config.h).
// The presets: shapes of published models, and two that train in seconds.
// GPT-2: Radford et al. 2019. Llama 3: arXiv:2407.21783; Llama 3.2 1B: its model card.
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
  TransformerConfig llama_1b = llama(16, 2048, 32, 8192);
  llama_1b.tie_embeddings = true;
  return {{"tiny", TransformerConfig{}},
          {"tiny-llama", tiny_llama()},
          {"gpt2-124m", gpt2(12, 768, 12)},
          {"gpt2-355m", gpt2(24, 1024, 16)},
          {"gpt2-774m", gpt2(36, 1280, 20)},
          {"gpt2-1558m", gpt2(48, 1600, 25)},
          {"llama-1b", llama_1b},
          {"llama-8b", llama(32, 4096, 32, 14336)}};
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
