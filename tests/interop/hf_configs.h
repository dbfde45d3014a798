// config.json of published models, written after their formats, and edits of them.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "runtime/core/json/json.h"

namespace trireme::interop {

inline const std::string gpt2 = R"({"activation_function": "gelu_new",
  "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1, "bos_token_id": 50256,
  "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02,
  "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768, "n_head": 12,
  "n_layer": 12, "n_positions": 1024, "resid_pdrop": 0.1, "summary_type": "cls_index",
  "vocab_size": 50257})";

inline const std::string llama_31 = R"({"architectures": ["LlamaForCausalLM"],
  "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 128000,
  "eos_token_id": 128001, "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02,
  "intermediate_size": 14336, "max_position_embeddings": 131072, "mlp_bias": false,
  "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32,
  "num_key_value_heads": 8, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
  "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192, "rope_type": "llama3"},
  "rope_theta": 500000.0, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
  "transformers_version": "4.43.0.dev0", "use_cache": true, "vocab_size": 128256})";

inline const std::string mistral = R"({"architectures": ["MistralForCausalLM"],
  "attention_dropout": 0.0, "head_dim": null, "hidden_act": "silu", "hidden_size": 4096,
  "initializer_range": 0.02, "intermediate_size": 14336, "max_position_embeddings": 32768,
  "model_type": "mistral", "num_attention_heads": 32, "num_hidden_layers": 32,
  "num_key_value_heads": 8, "rms_norm_eps": 1e-05, "rope_theta": 1000000.0,
  "sliding_window": null, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
  "use_cache": true, "vocab_size": 32768})";

inline const std::string qwen25_05b = R"({"architectures": ["Qwen2ForCausalLM"],
  "attention_dropout": 0.0, "hidden_act": "silu", "hidden_size": 896, "initializer_range": 0.02,
  "intermediate_size": 4864, "max_position_embeddings": 32768, "max_window_layers": 24,
  "model_type": "qwen2", "num_attention_heads": 14, "num_hidden_layers": 24,
  "num_key_value_heads": 2, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
  "sliding_window": 32768, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
  "use_cache": true, "use_mrope": false, "use_sliding_window": false, "vocab_size": 151936})";

inline const std::string qwen3_06b = R"({"architectures": ["Qwen3ForCausalLM"],
  "attention_bias": false, "attention_dropout": 0.0, "head_dim": 128, "hidden_act": "silu",
  "hidden_size": 1024, "initializer_range": 0.02, "intermediate_size": 3072,
  "max_position_embeddings": 32768, "max_window_layers": 28, "model_type": "qwen3",
  "num_attention_heads": 16, "num_hidden_layers": 28, "num_key_value_heads": 8,
  "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000, "sliding_window": null,
  "tie_word_embeddings": true, "torch_dtype": "bfloat16", "use_cache": true,
  "use_sliding_window": false, "vocab_size": 151936})";

/// With the names of their presets.
inline const std::vector<std::pair<std::string, std::string>> published = {
    {"gpt2-124m", gpt2},
    {"llama-3.1-8b", llama_31},
    {"mistral-7b", mistral},
    {"qwen2.5-0.5b", qwen25_05b},
    {"qwen3-0.6b", qwen3_06b}};

/// The same file without a key.
inline std::string without(const std::string& text, const std::string& key) {
  Json json = parse_json(text);
  std::erase_if(std::get<Json::Object>(json.value),
                [&](const auto& member) { return member.first == key; });
  return to_text(json);
}

/// The same file with another value of a key, or one more key at its end. `value`: JSON.
inline std::string with(const std::string& text, const std::string& key, const std::string& value) {
  Json json = parse_json(text);
  auto& members = std::get<Json::Object>(json.value);
  const auto found = std::find_if(members.begin(), members.end(),
                                  [&](const auto& member) { return member.first == key; });
  if (found != members.end())
    found->second = parse_json(value);
  else
    members.emplace_back(key, parse_json(value));
  return to_text(json);
}

}  // namespace trireme::interop
