// Implements hf_config_of (hf_config.h).
#include <algorithm>

#include "trireme/core/error.h"

#include "runtime/core/json/json_record.h"
#include "runtime/interop/hf_config.h"
#include "runtime/interop/hf_rope.h"
#include "runtime/models/kinds.h"
#include "runtime/models/transformer_limits.h"

namespace trireme::interop {
namespace {

constexpr const char* positions_name = "max_position_embeddings";

bool is_llama_like(const TransformerConfig& m) {
  return is_rotary(m.position) && !has_bias(m.normalization) && is_gated(m.mlp);
}

/// The first family with these options; "": none.
std::string type_of(const TransformerConfig& m) {
  const bool own_bias = m.add_qkv_bias && !m.add_bias_linear && !m.add_attention_bias;
  if (is_llama_like(m) && m.qk_layernorm) return own_bias || m.add_bias_linear ? "" : "qwen3";
  if (is_llama_like(m)) return own_bias ? "qwen2" : "llama";
  const bool plain_heads =
      m.kv_heads() == m.num_attention_heads && m.attention_width() == m.hidden_size;
  const bool gpt2 = is_learned(m.position) && plain_heads && !m.qk_layernorm &&
                    has_bias(m.normalization) && !is_gated(m.mlp) && m.add_bias_linear;
  return gpt2 ? "gpt2" : "";
}

constexpr const char* what_families_have =
    "gpt2 has learned positions, LayerNorm, GELU, all biases and no query groups; the others have "
    "rope, RMSNorm and swiglu, with all biases, those of attention or none (llama), no bias "
    "(mistral), a bias on queries, keys and values (qwen2), or norms of queries and keys and no "
    "bias but those of attention (qwen3)";

/// As transformers calls it.
const char* activation_of(MlpKind kind) {
  switch (kind) {
    case MlpKind::gelu_tanh:
      return "gelu_new";
    case MlpKind::gelu_erf:
      return "gelu";
    case MlpKind::swiglu:
      return "silu";
  }
  return "";
}

Json::Object gpt2_members(const TransformerConfig& m, Index positions) {
  return {{"architectures", Json::Array{causal_model_of("gpt2")}},
          {"model_type", "gpt2"},
          {"vocab_size", m.vocab_size},
          {"n_embd", m.hidden_size},
          {"n_layer", m.num_layers},
          {"n_head", m.num_attention_heads},
          {"n_inner", m.ffn()},
          {"n_positions", positions},
          {"layer_norm_epsilon", shortest(m.norm_epsilon)},
          {"activation_function", activation_of(m.mlp)},
          {"initializer_range", shortest(m.init_std)},
          {"tie_word_embeddings", m.tie_embeddings}};
}

Json::Object llama_members(const TransformerConfig& m, const std::string& type, Index positions) {
  Json::Object all = {{"architectures", Json::Array{causal_model_of(type)}},
                      {"model_type", type},
                      {"vocab_size", m.vocab_size},
                      {"hidden_size", m.hidden_size},
                      {"intermediate_size", m.ffn()},
                      {"num_hidden_layers", m.num_layers},
                      {"num_attention_heads", m.num_attention_heads},
                      {"num_key_value_heads", m.kv_heads()},
                      {"head_dim", m.head_dim()},
                      {"hidden_act", activation_of(m.mlp)},
                      {positions_name, positions},
                      {"rms_norm_eps", shortest(m.norm_epsilon)},
                      {"initializer_range", shortest(m.init_std)},
                      {"tie_word_embeddings", m.tie_embeddings}};
  if (type == "llama" || type == "qwen3")
    all.emplace_back("attention_bias", m.add_bias_linear || m.add_attention_bias);
  if (type == "llama") all.emplace_back("mlp_bias", m.add_bias_linear);
  const Json none;  // null: no window; absent: a window of 4096
  if (type == "mistral") all.emplace_back("sliding_window", none);
  return all;
}

void set(Json::Object& object, const std::string& key, Json value) {
  const auto found = std::find_if(object.begin(), object.end(),
                                  [&](const auto& member) { return member.first == key; });
  if (found != object.end())
    found->second = std::move(value);
  else
    object.emplace_back(key, std::move(value));
}

bool lacks(const Json& json, const char* key) {
  const Json* member = json.find(key);
  return member == nullptr || std::holds_alternative<std::nullptr_t>(member->value);
}

/// The longest sequence that `base` allows.
Index positions_of(const Json& base) {
  std::vector<std::string> ignored;
  return parse_hf_config(to_text(base), ignored).max_positions;
}

float theta_of(const Json& base) {
  std::vector<std::string> ignored;
  JsonReader keys(base, "", ignored);
  return static_cast<float>(real(keys, "rope_theta", 0));
}

std::string type_in(const Json& base) {
  std::vector<std::string> ignored;
  return JsonReader(base, "", ignored).get_or<std::string>("model_type", "");
}

/// The object of `base` that scales positions by the length of a sequence, which is no option of a
/// model here; null: none.
const Json::Object* dynamic_rope(const Json& base) {
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const Json* rope = base.find(key);
    if (rope == nullptr) continue;
    for (const char* type : {"rope_type", "type"}) {
      const Json* word = rope->find(type);
      if (word != nullptr && to_text(*word) == "\"dynamic\"")
        return &std::get<Json::Object>(rope->value);
    }
  }
  return nullptr;
}

/// rope_theta, rope_scaling and rope_parameters; a dynamic scaling is that of `base`.
Json::Object rope_members_of(const Json& base, const TransformerConfig& m) {
  Json::Object all = rope_members(m);
  const Json::Object* dynamic = dynamic_rope(base);
  if (dynamic == nullptr) return all;
  Json::Object rope = *dynamic;
  set(rope, "rope_type", "dynamic");
  set(rope, "rope_theta", shortest(m.rotary_base));
  set(all, "rope_parameters", rope);
  std::erase_if(rope, [](const auto& member) { return member.first == "rope_theta"; });
  set(all, "rope_scaling", std::move(rope));
  return all;
}

/// The file that the model came from, with what may have changed, and the other generation's keys
/// where it lacks them.
Json::Object edited(const Json& base, const TransformerConfig& m) {
  Json::Object all = std::get<Json::Object>(base.value);
  set(all, "vocab_size", m.vocab_size);
  if (lacks(base, "architectures"))  // by which vLLM finds the model
    set(all, "architectures", Json::Array{causal_model_of(type_in(base))});
  if (!is_rotary(m.position)) return all;
  // A base inside of rope_parameters counts more, which transformers 4 does not read.
  if (!lacks(base, "rope_theta") && theta_of(base) != m.rotary_base)
    set(all, "rope_theta", shortest(m.rotary_base));
  const bool longer = m.seq_length > positions_of(base);
  if (longer) set(all, positions_name, m.seq_length);
  // A scaling may take its length from the number that was replaced: all of it is said then.
  for (auto& [key, value] : rope_members_of(base, m))
    if (longer || lacks(base, key.c_str())) set(all, key, std::move(value));
  return all;
}

/// What is written must read as the model it was written of.
void check_meaning(const Json& json, const TransformerConfig& m) {
  std::vector<std::string> problems;
  const HfConfig config = parse_hf_config(to_text(json), problems);
  for (const std::string& problem : length_problems(config, m.seq_length))
    problems.push_back(problem + "; the run was trained with that length");
  require(problems.empty(),
          "config.json of this model: ", problems.empty() ? "" : problems.front());
  const TransformerConfig& read = config.model;
  std::string differing;
  const auto here = m.identity(), there = read.identity();
  for (std::size_t i = 0; i < std::max(here.size(), there.size()); ++i) {
    const bool both = i < here.size() && i < there.size();
    if (both && here[i] == there[i]) continue;
    differing = i < here.size() ? here[i].first : there[i].first;
    break;
  }
  require(differing.empty(), "config.json that the model came from has another ", differing);
}

/// The longest sequence that the file allows, where nothing else is said.
Index usual_positions(const TransformerConfig& m) {
  const RotaryScaling& s = m.rotary_scaling;
  const bool scaled = reads_original_positions(s.kind);
  if (is_learned(m.position)) return m.positions();
  if (!scaled) return m.seq_length;
  const double reach = static_cast<double>(s.factor) * static_cast<double>(s.original_positions);
  constexpr auto most = static_cast<double>(TransformerLimits::positions);
  return std::max(m.seq_length, static_cast<Index>(std::min(reach, most)));
}

}  // namespace

Json hf_config_of(const TransformerConfig& model, const HfOutput& output) {
  const std::string own = type_of(model);
  const std::string type = output.model_type.empty() ? own
                           : own == "llama"          ? output.model_type
                                                     : own;
  require(!type.empty(), "no family of Hugging Face has the options of this model (",
          model.describe(), "): ", what_families_have);
  const bool said = output.max_positions > 0 && is_rotary(model.position);
  const Index longest = said ? output.max_positions : usual_positions(model);
  Json::Object all;
  if (output.base != nullptr) {
    all = edited(*output.base, model);
  } else {
    all = type == "gpt2" ? gpt2_members(model, longest) : llama_members(model, type, longest);
    if (type != "gpt2")
      for (auto& member : rope_members(model)) all.push_back(std::move(member));
    // Where they are absent, transformers takes ordinary tokens of this run for the ends of texts.
    all.emplace_back("bos_token_id", output.bos ? Json(*output.bos) : Json());
    all.emplace_back("eos_token_id", output.eos ? Json(*output.eos) : Json());
  }
  set(all, "dtype", output.dtype);
  set(all, "torch_dtype", output.dtype);
  Json json(std::move(all));
  check_meaning(json, model);
  return json;
}

}  // namespace trireme::interop
