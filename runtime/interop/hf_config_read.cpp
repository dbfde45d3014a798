// Implements the reading half of hf_config.h. A key with an influence on the model is either
// understood or refused; what transformers assumes where a key is absent is assumed here.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "trireme/core/error.h"

#include "runtime/core/files/other_files.h"
#include "runtime/core/json/json_record.h"
#include "runtime/core/require_call.h"
#include "runtime/interop/hf_config.h"
#include "runtime/interop/hf_rope.h"
#include "runtime/models/kinds.h"
#include "runtime/models/transformer_limits.h"

namespace trireme::interop {
namespace {

using Limits = TransformerLimits;
using Problems = std::vector<std::string>;

constexpr Index most_config_bytes = Index{16} << 20;

/// The numbers are those that transformers assumes where a file has none; 0: it follows from
/// others.
struct Family {
  const char* model_type;
  const char* causal_model;  // of "architectures"
  Index positions;
  Index kv_heads;
  Index head_dim;
};
constexpr Family families[] = {{"gpt2", "GPT2LMHeadModel", 1024, 0, 0},
                               {"llama", "LlamaForCausalLM", 2048, 0, 0},
                               {"mistral", "MistralForCausalLM", 131072, 8, 0},
                               {"qwen2", "Qwen2ForCausalLM", 32768, 32, 0},
                               {"qwen3", "Qwen3ForCausalLM", 32768, 32, 128}};

const Family* find_family(const std::string& model_type) {
  const auto found =
      std::find_if(std::begin(families), std::end(families),
                   [&](const Family& family) { return family.model_type == model_type; });
  return found == std::end(families) ? nullptr : found;
}

std::string listed_families() {
  std::string all;
  for (const Family& family : families)
    all += str(all.empty()                         ? ""
               : &family == std::end(families) - 1 ? " and "
                                                   : ", ",
               family.model_type);
  return all;
}

void read_activation(JsonReader& keys, const char* key, const char* absent, HfConfig& config) {
  const std::string word = keys.get_or<std::string>(key, absent);
  const bool gated = config.model_type != "gpt2";
  if (gated ? word == "silu" || word == "swish" : word == "gelu_new" || word == "gelu_pytorch_tanh")
    config.model.mlp = gated ? MlpKind::swiglu : MlpKind::gelu_tanh;
  else if (!gated && word == "gelu")
    config.model.mlp = MlpKind::gelu_erf;
  else
    keys.problem(key, " is ", shown(word), "; trireme has ",
                 gated ? "silu" : "gelu_new, gelu_pytorch_tanh and gelu", " for ",
                 config.model_type);
}

/// A number that a file may leave out, with a note: transformers has its own.
Index whole_or_usual(JsonReader& keys, const char* key, Index most, Index usual, HfConfig& config) {
  if (keys.find(key) != nullptr || usual == 0) return keys.get_or<Index>(key, 0, 1, most);
  config.notes.push_back(str(key, " is absent; ", usual, " is taken, as transformers does"));
  return usual;
}

/// The same; null is none, and a problem.
Index positions_or_usual(JsonReader& keys, const char* key, Index usual, HfConfig& config) {
  return keys.find(key) != nullptr ? keys.get<Index>(key, 1, Limits::positions)
                                   : whole_or_usual(keys, key, Limits::positions, usual, config);
}

/// Refuses a flag that has another value than `right`, which is also that of an absent one.
void demand(JsonReader& keys, const char* key, bool right, const char* what) {
  if (keys.get_or(key, right) != right)
    keys.problem(key, " is ", right ? "false" : "true", ": trireme has no ", what);
}

void read_gpt2(JsonReader& keys, const Family& family, HfConfig& config) {
  TransformerConfig& m = config.model;
  m.hidden_size = keys.get<Index>("n_embd", 1, Limits::channels);
  m.num_layers = keys.get<Index>("n_layer", 1, Limits::layers);
  m.num_attention_heads = keys.get<Index>("n_head", 1, Limits::heads);
  m.ffn_hidden_size = keys.get_or<Index>("n_inner", 0, 1, Limits::mlp_channels);
  m.max_position_embeddings = positions_or_usual(keys, "n_positions", family.positions, config);
  m.norm_epsilon = static_cast<float>(real(keys, "layer_norm_epsilon", 1e-5));
  config.max_positions = m.max_position_embeddings;
  read_activation(keys, "activation_function", "gelu_new", config);
  demand(keys, "scale_attn_weights", true, "attention without division by the root of head size");
  demand(keys, "scale_attn_by_inverse_layer_idx", false, "attention scaled by the layer");
  demand(keys, "add_cross_attention", false, "cross attention");
  m.tie_embeddings = keys.get_or("tie_word_embeddings", true);
}

/// Biases of the linear layers: all or none, those of attention, or those of Qwen2.
void read_biases(JsonReader& keys, HfConfig& config) {
  TransformerConfig& m = config.model;
  m.add_bias_linear = false;
  m.add_qkv_bias = config.model_type == "qwen2";
  if (m.add_qkv_bias) return;
  const bool llama = config.model_type == "llama";  // no other family reads mlp_bias
  const bool attention = config.model_type != "mistral" && keys.get_or("attention_bias", false);
  const bool mlp = llama && keys.get_or("mlp_bias", false);
  m.add_bias_linear = attention && mlp;
  m.add_attention_bias = attention && !mlp;
  if (mlp && !attention)
    keys.problem(
        "mlp_bias is true: trireme has such biases only together with those of attention "
        "(attention_bias)");
}

/// Heads of keys and values, and the size of a head. An absent key is not the same everywhere.
void read_heads(JsonReader& keys, const Family& family, HfConfig& config) {
  TransformerConfig& m = config.model;
  m.num_attention_heads = keys.get<Index>("num_attention_heads", 1, Limits::heads);
  m.num_query_groups =
      whole_or_usual(keys, "num_key_value_heads", Limits::heads, family.kv_heads, config);
  m.kv_channels = whole_or_usual(keys, "head_dim", Limits::channels, family.head_dim, config);
  m.qk_layernorm = config.model_type == "qwen3";
}

/// Of the key layer_types, and refuses other kinds of attention.
bool has_sliding_layers(JsonReader& keys) {
  const auto* types = std::get_if<Json::Array>(&keys.find("layer_types")->value);
  bool slides = false;
  for (const Json& type : types != nullptr ? *types : Json::Array{*keys.find("layer_types")}) {
    const auto* word = std::get_if<std::string>(&type.value);
    if (word != nullptr && *word == "sliding_attention") slides = true;
    if (word != nullptr && (*word == "sliding_attention" || *word == "full_attention")) continue;
    keys.problem("layer_types has ", shown(type),
                 "; trireme has full_attention, and sliding_attention of short sequences");
    break;
  }
  return slides;
}

/// Whether some layer has a window, if the file gives a length of one. Llama has none, whatever a
/// file says; all layers of Mistral have one; those of Qwen that the list names, or that come
/// behind the first max_window_layers.
bool has_windows(JsonReader& keys, const HfConfig& config) {
  constexpr double usual_first_layers = 28;
  if (config.model_type == "llama") return false;
  if (config.model_type == "mistral") return true;
  const bool flag = keys.get_or("use_sliding_window", false);
  const double first = real(keys, "max_window_layers", usual_first_layers);
  if (keys.has("layer_types")) return has_sliding_layers(keys);
  return flag && static_cast<double>(config.model.num_layers) > first;
}

void read_window(JsonReader& keys, HfConfig& config) {
  constexpr Index usual_window = 4096;  // where the key is absent, not null
  const bool used = has_windows(keys, config);
  const bool absent = keys.find("sliding_window") == nullptr;
  const Index window =
      keys.get_or<Index>("sliding_window", used && absent ? usual_window : 0, 1, Limits::positions);
  if (used && window > 0)
    config.limits.push_back(
        {window, str("sliding_window ", window, " lets no token attend farther")});
}

void read_llama_like(JsonReader& keys, const Family& family, HfConfig& config) {
  TransformerConfig& m = config.model;
  m.hidden_size = keys.get<Index>("hidden_size", 1, Limits::channels);
  m.num_layers = keys.get<Index>("num_hidden_layers", 1, Limits::layers);
  m.ffn_hidden_size = keys.get<Index>("intermediate_size", 1, Limits::mlp_channels);
  m.norm_epsilon = static_cast<float>(real(keys, "rms_norm_eps", 1e-6));
  m.normalization = Normalization::rms_norm;
  m.position = PositionKind::rotary;
  config.max_positions =
      positions_or_usual(keys, "max_position_embeddings", family.positions, config);
  read_heads(keys, family, config);
  read_biases(keys, config);
  read_activation(keys, "hidden_act", "silu", config);
  read_window(keys, config);
  read_rope(keys, config);
  if (real(keys, "partial_rotary_factor", 1) != 1)
    keys.problem("partial_rotary_factor is ", shown(*keys.find("partial_rotary_factor")),
                 "; trireme turns all channels of a head (1)");
  m.tie_embeddings = keys.get_or("tie_word_embeddings", false);
}

/// "modeling_x.py" and the like that the file would have run.
void read_code(JsonReader& keys, HfConfig& config) {
  if (!keys.has("auto_map")) return;
  const Json& map = *keys.find("auto_map");
  const auto* members = std::get_if<Json::Object>(&map.value);
  const bool model =
      members == nullptr || std::any_of(members->begin(), members->end(), [](const auto& member) {
        return member.first.starts_with("AutoModel") || member.first == "AutoConfig";
      });
  if (model)
    keys.problem("auto_map is ", shown(map),
                 ": the model is code of this directory, and trireme runs none; expected no such "
                 "key");
  else
    config.notes.push_back(str("auto_map names code, which trireme does not run: ", shown(map)));
}

void read_architectures(JsonReader& keys, const Family& family) {
  if (!keys.has("architectures")) return;
  const Json& json = *keys.find("architectures");
  const auto* all = std::get_if<Json::Array>(&json.value);
  const auto is_right = [&](const Json& name) {
    const auto* word = std::get_if<std::string>(&name.value);
    return word != nullptr && *word == family.causal_model;
  };
  if (all == nullptr || std::none_of(all->begin(), all->end(), is_right))
    keys.problem("architectures is ", shown(json), "; expected ", family.causal_model, ", or none");
}

void read_dropout(JsonReader& keys, HfConfig& config) {
  for (const char* key :
       {"attn_pdrop", "resid_pdrop", "embd_pdrop", "attention_dropout", "hidden_dropout"})
    if (const double rate = real(keys, key, 0); rate != 0)
      config.notes.push_back(str(key, " ", rate, " is not taken over: --hidden-dropout decides"));
}

constexpr float usual_init_std = 0.02f;

/// What every family may have.
void read_common(JsonReader& keys, const Family& family, HfConfig& config) {
  TransformerConfig& m = config.model;
  m.vocab_size = keys.get<Index>("vocab_size", 1, Limits::vocabulary);
  m.init_std = static_cast<float>(real(keys, "initializer_range", usual_init_std));
  if (m.init_std == 0) {  // legal: all values are read
    m.init_std = usual_init_std;
    config.notes.push_back(
        str("initializer_range 0 is not taken over: new rows of the table of "
            "tokens begin with ",
            usual_init_std));
  }
  config.dtype = keys.get_or<std::string>("dtype", keys.get_or<std::string>("torch_dtype", ""));
  for (const char* key : {"quantization_config", "attn_logit_softcapping",
                          "final_logit_softcapping", "num_experts", "num_local_experts"})
    if (keys.has(key))
      keys.problem(key, " is ", shown(*keys.find(key)), ": trireme has no such thing");
  read_architectures(keys, family);
  read_code(keys, config);
  read_dropout(keys, config);
}

/// Members that the file has more than once.
void note_twins(std::vector<std::string> names, HfConfig& config) {
  constexpr std::size_t most_listed = 5;
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  const std::size_t more = names.size() - std::min(names.size(), most_listed);
  names.resize(names.size() - more);
  for (const std::string& name : names)
    config.notes.push_back(str(one_line(name, most_of_a_name),
                               " is there more than once; the last counts, as in transformers"));
  if (more > 0) config.notes.push_back(str("and ", more, " more keys are there more than once"));
}

/// The keys that the fields of a model are read from.
constexpr TransformerNames keys_of_llama{.num_layers = "num_hidden_layers",
                                         .hidden_size = "hidden_size",
                                         .ffn_hidden_size = "intermediate_size",
                                         .num_attention_heads = "num_attention_heads",
                                         .num_query_groups = "num_key_value_heads",
                                         .kv_channels = "head_dim",
                                         .vocab_size = "vocab_size",
                                         .seq_length = "max_position_embeddings",
                                         .max_position_embeddings = "max_position_embeddings",
                                         .norm_epsilon = "rms_norm_eps",
                                         .init_std = "initializer_range",
                                         .rotary_base = "rope_theta",
                                         .kind = "rope_type",
                                         .factor = "factor",
                                         .original_positions = "original_max_position_embeddings",
                                         .low_frequency_factor = "low_freq_factor",
                                         .high_frequency_factor = "high_freq_factor",
                                         .beta_fast = "beta_fast",
                                         .beta_slow = "beta_slow",
                                         .attention_factor = "attention_factor"};
constexpr TransformerNames keys_of_gpt2{.num_layers = "n_layer",
                                        .hidden_size = "n_embd",
                                        .ffn_hidden_size = "n_inner",
                                        .num_attention_heads = "n_head",
                                        .num_query_groups = "n_head",
                                        .kv_channels = "n_embd / n_head",
                                        .vocab_size = "vocab_size",
                                        .seq_length = "n_positions",
                                        .max_position_embeddings = "n_positions",
                                        .norm_epsilon = "layer_norm_epsilon",
                                        .init_std = "initializer_range"};

/// As long as the first training was, or as the limits allow.
Index usual_length(const HfConfig& config) {
  const RotaryScaling& s = config.model.rotary_scaling;
  const bool scaled = reads_original_positions(s.kind);
  const Index longest = longest_sequence(config);
  return scaled ? std::min(longest, s.original_positions) : longest;
}

}  // namespace

std::vector<std::string> hf_model_types() {
  std::vector<std::string> all;
  for (const Family& family : families) all.emplace_back(family.model_type);
  return all;
}

std::string causal_model_of(const std::string& model_type) {
  const Family* family = find_family(model_type);
  require(family != nullptr, "\"", model_type, "\" is no model_type that trireme knows");
  return family->causal_model;
}

HfConfig parse_hf_config(std::string_view text, Problems& problems) {
  HfConfig config;
  std::vector<std::string> twins;
  if (const std::string other = what_begins_so(text); !other.empty()) {
    problems.push_back(other);
    return config;
  }
  try {
    config.json =
        parse_json(text, {.text_bytes = most_config_bytes, .values = 1 << 20, .depth = 16}, &twins);
  } catch (const Error& error) {
    problems.push_back(error.what());
    return config;
  }
  if (!std::holds_alternative<Json::Object>(config.json.value)) {
    problems.push_back(str("the file is ", shown(config.json), "; expected an object"));
    return config;
  }
  JsonReader keys(config.json, "", problems);
  config.model_type = keys.get_or<std::string>("model_type", "");
  const Family* family = find_family(config.model_type);
  if (family == nullptr) {
    keys.problem("model_type is ", config.model_type.empty() ? "missing" : shown(config.model_type),
                 "; trireme trains ", listed_families());
    read_code(keys, config);
    return config;
  }
  note_twins(twins, config);
  const std::size_t before = problems.size();
  read_common(keys, *family, config);
  config.model_type == "gpt2" ? read_gpt2(keys, *family, config)
                              : read_llama_like(keys, *family, config);
  config.not_used = keys.unread();
  config.model.seq_length = usual_length(config);
  if (problems.size() == before)
    for (const std::string& problem : problems_of(
             config.model, 1, 1, config.model_type == "gpt2" ? keys_of_gpt2 : keys_of_llama))
      problems.push_back(problem);
  return config;
}

std::string hf_config_text(const std::string& path) {
  std::error_code ignored;  // opening a pipe could wait without end
  require(std::filesystem::is_regular_file(path, ignored), path,
          ": cannot be read: it is missing, or no file");
  std::ifstream in(path, std::ios::binary);
  require_call(in.is_open(), path, ": cannot be read");
  std::string text(static_cast<std::size_t>(most_config_bytes) + 1, '\0');
  in.read(text.data(), most_config_bytes + 1);
  text.resize(static_cast<std::size_t>(in.gcount()));
  require(!text.empty(), path, ": is empty");
  require(static_cast<Index>(text.size()) <= most_config_bytes, path, ": has more than ",
          most_config_bytes, " bytes; this is no config.json of a model");
  return text;
}

HfConfig read_hf_config(const std::string& path) {
  Problems problems;
  HfConfig config = parse_hf_config(hf_config_text(path), problems);
  std::string all;
  for (const std::string& problem : problems)
    all += str(all.empty() ? "" : "\n", path, ": ", problem);
  require(problems.empty(), all);
  return config;
}

Index longest_sequence(const HfConfig& config) {
  Index tokens = config.max_positions;
  for (const LengthLimit& limit : config.limits) tokens = std::min(tokens, limit.tokens);
  return tokens;
}

std::vector<std::string> length_problems(const HfConfig& config, Index seq_length) {
  std::vector<std::string> all;
  for (const LengthLimit& limit : config.limits)
    if (seq_length > limit.tokens)
      all.push_back(str("--seq-length ", seq_length, " is too long: ", limit.reason, "; at most ",
                        limit.tokens));
  return all;
}

std::vector<std::string> training_length_problems(const HfConfig& config, const std::string& source,
                                                  Index given) {
  std::vector<std::string> all = length_problems(config, given);
  if (given == 0)
    all.insert(all.begin(), str(source, ": give --seq-length, at most ", longest_sequence(config),
                                "; it is not taken from config.json"));
  if (is_rotary(config.model.position) && given > config.max_positions)
    all.push_back(str("--seq-length ", given,
                      " is too long: max_position_embeddings in config.json of ", source, " is ",
                      config.max_positions, "; a model of longer sequences says so there"));
  return all;
}

}  // namespace trireme::interop
