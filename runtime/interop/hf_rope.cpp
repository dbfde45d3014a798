#include "runtime/interop/hf_rope.h"

#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "trireme/core/error.h"

#include "runtime/models/kinds.h"
#include "runtime/models/transformer_limits.h"

namespace trireme::interop {
namespace {

using Problems = std::vector<std::string>;

constexpr const char* listed_types = "default, linear, dynamic, llama3 or yarn";

/// What one generation says; nothing where it says nothing.
struct Rope {
  std::optional<double> theta;
  RotaryScaling scaling = {};
  bool dynamic = false;
  Index original_positions = 0;  // 0: not said
};

bool is_object(const Json& json) { return std::holds_alternative<Json::Object>(json.value); }

float to_float(JsonReader& keys, const char* key, double absent) {
  return static_cast<float>(real(keys, key, absent));
}

/// The amplitude by DeepSeek's two numbers; 0: the usual formula (Peng et al. 2023).
double amplitude_of(JsonReader& keys, double factor) {
  const double above = real(keys, "mscale", 0), below = real(keys, "mscale_all_dim", 0);
  if (keys.has("attention_factor")) return real(keys, "attention_factor", 0);
  if (above == 0 || below == 0 || factor <= 1) return 0;
  const auto scale = [&](double m) { return 0.1 * m * std::log(factor) + 1; };
  return scale(above) / scale(below);
}

void read_yarn(JsonReader& keys, Rope& rope, Index max_positions) {
  RotaryScaling& s = rope.scaling;
  s.kind = RotaryScalingKind::yarn;
  s.factor = static_cast<float>(real(keys, "factor"));
  s.original_positions = rope.original_positions > 0 ? rope.original_positions : max_positions;
  s.beta_fast = to_float(keys, "beta_fast", 32);
  s.beta_slow = to_float(keys, "beta_slow", 1);
  s.attention_factor = static_cast<float>(amplitude_of(keys, static_cast<double>(s.factor)));
  s.truncate = keys.get_or("truncate", true);
}

void read_llama3(JsonReader& keys, Rope& rope) {
  RotaryScaling& s = rope.scaling;
  s.kind = RotaryScalingKind::llama3;
  s.factor = static_cast<float>(real(keys, "factor"));
  s.original_positions =
      keys.get<Index>("original_max_position_embeddings", 1, TransformerLimits::positions);
  s.low_frequency_factor = static_cast<float>(real(keys, "low_freq_factor"));
  s.high_frequency_factor = static_cast<float>(real(keys, "high_freq_factor"));
}

/// `keys`: of rope_scaling or rope_parameters, which `where` names. `notes`: what is ignored.
Rope read_object(JsonReader& keys, const std::string& where, Index max_positions,
                 std::vector<std::string>& notes) {
  Rope rope;
  if (keys.has("rope_theta")) rope.theta = real(keys, "rope_theta", 0);
  if (real(keys, "partial_rotary_factor", 1) != 1)
    keys.problem("partial_rotary_factor is ", shown(*keys.find("partial_rotary_factor")),
                 "; trireme turns all channels of a head (1)");
  const bool named = keys.has("type") || keys.has("rope_type");
  const std::string old_name = keys.get_or<std::string>("type", "default");
  const std::string type = keys.get_or<std::string>("rope_type", old_name);
  if (type != "llama3")
    rope.original_positions =
        keys.get_or<Index>("original_max_position_embeddings", 0, 1, TransformerLimits::positions);
  if (type == "linear") {
    rope.scaling.kind = RotaryScalingKind::linear;
    rope.scaling.factor = static_cast<float>(real(keys, "factor"));
  } else if (type == "dynamic") {
    rope.dynamic = true;
    real(keys, "factor", 1);
  } else if (type == "llama3") {
    read_llama3(keys, rope);
  } else if (type == "yarn") {
    read_yarn(keys, rope, max_positions);
  } else if (type != "default") {
    keys.problem("rope_type is ", shown(type), "; trireme has ", listed_types);
    return rope;
  }
  const std::vector<std::string> unread = keys.unread();
  for (const std::string& key : unread)
    if (named)
      notes.push_back(str(where, key, " has no meaning for rope_type ", type,
                          " and is ignored, as transformers does"));
    else
      keys.problem(key, " is not understood without rope_type; expected one of ", listed_types);
  return rope;
}

/// Nothing when the member is absent, null or empty.
std::optional<Rope> read_member(JsonReader& keys, const char* name, HfConfig& config) {
  if (!keys.has(name)) return std::nullopt;
  const Json& member = *keys.find(name);
  if (!is_object(member)) {
    keys.problem(name, " is ", shown(member), "; expected an object, or null");
    return std::nullopt;
  }
  const auto& members = std::get<Json::Object>(member.value);
  if (members.empty()) return std::nullopt;
  for (const auto& [key, value] : members)
    if (is_object(value)) {
      keys.problem(name, ".", key, ": positions that differ by layer are not understood");
      return std::nullopt;
    }
  const std::string where = str(name, '.');
  JsonReader inside(member, keys, name);
  return read_object(inside, where, config.max_positions, config.notes);
}

/// What two generations can differ in.
std::string facts_of(const TransformerConfig& model, const Rope& rope) {
  TransformerConfig other = model;
  other.rotary_scaling = rope.scaling;
  std::string all = rope.dynamic ? "dynamic" : "";
  for (const auto& [field, value] : other.identity()) all += field + " " + value + "\n";
  return all;
}

/// Two bases are one to the model, which has them as floats.
bool is_same_base(double a, double b) { return static_cast<float>(a) == static_cast<float>(b); }

/// Where a file says two things, transformers 5 takes the first of: a base inside of the object,
/// one beside it.
double base_of(JsonReader& keys, const Rope& rope, const char* name, HfConfig& config) {
  constexpr double usual_theta = 10000;  // of all families that are read
  const bool beside = keys.has("rope_theta");
  const double theta = real(keys, "rope_theta", usual_theta);
  if (beside && rope.theta && !is_same_base(*rope.theta, theta))
    config.notes.push_back(str("rope_theta is ", theta, ", but ", name, ".rope_theta is ",
                               *rope.theta, ", which counts, as in transformers 5"));
  return rope.theta.value_or(theta);
}

/// The length of the first training beside the object counts more than one inside, as in
/// transformers 5.
void take_positions_beside(JsonReader& keys, RotaryScaling& scaling, HfConfig& config) {
  const bool reads = reads_original_positions(scaling.kind);
  constexpr const char* key = "original_max_position_embeddings";
  if (!reads || !keys.has(key)) return;
  const Index positions = keys.get<Index>(key, 1, TransformerLimits::positions);
  if (positions != scaling.original_positions)
    config.notes.push_back(str(key, " is ", positions,
                               ", which counts, as in transformers 5, and "
                               "not the ",
                               scaling.original_positions, " of rope_type ", name(scaling.kind)));
  scaling.original_positions = positions;
}

void limit_dynamic(HfConfig& config, const Rope& rope) {
  const Index original = rope.original_positions;
  const Index tokens =
      original > 0 ? std::min(original, config.max_positions) : config.max_positions;
  config.limits.push_back(
      {tokens, str("rope_type dynamic scales positions of sequences longer than ", tokens)});
}

}  // namespace

double shortest(float value) { return std::stod(fmt::format("{}", value)); }

double real(JsonReader& keys, const char* key, double absent) {
  return keys.has(key) ? real(keys, key) : absent;
}

double real(JsonReader& keys, const char* key) {
  constexpr double most = std::numeric_limits<float>::max();
  double number = 1;
  keys(key, within(number, -most, most, "a number that fits fp32"));
  return number;
}

void read_rope(JsonReader& keys, HfConfig& config) {
  const std::optional<Rope> old = read_member(keys, "rope_scaling", config),
                            now = read_member(keys, "rope_parameters", config);
  Rope rope = old ? *old : now ? *now : Rope{};
  if (old && now && facts_of(config.model, *old) != facts_of(config.model, *now))
    config.notes.emplace_back(
        "rope_scaling and rope_parameters differ; the first counts, as in transformers");
  const double base = base_of(keys, rope, old ? "rope_scaling" : "rope_parameters", config);
  if (!(base > 0)) keys.problem("rope_theta is ", base, "; expected a number above 0");
  config.model.rotary_base = static_cast<float>(base);
  take_positions_beside(keys, rope.scaling, config);
  config.model.rotary_scaling = rope.scaling;
  if (rope.dynamic) limit_dynamic(config, rope);
}

Json::Object rope_members(const TransformerConfig& model) {
  const RotaryScaling& s = model.rotary_scaling;
  const double theta = shortest(model.rotary_base);
  Json::Object scaling = {{"rope_type", name(s.kind)}};
  const auto add = [&](const char* key, float value) {
    scaling.emplace_back(key, shortest(value));
  };
  if (is_scaled(s.kind)) add("factor", s.factor);
  switch (s.kind) {
    case RotaryScalingKind::none:
    case RotaryScalingKind::linear:
      break;
    case RotaryScalingKind::llama3:
      add("low_freq_factor", s.low_frequency_factor);
      add("high_freq_factor", s.high_frequency_factor);
      break;
    case RotaryScalingKind::yarn:
      add("beta_fast", s.beta_fast);
      add("beta_slow", s.beta_slow);
      add("attention_factor", static_cast<float>(rotary_amplitude(s)));
      if (!s.truncate) scaling.emplace_back("truncate", false);
      break;
  }
  if (reads_original_positions(s.kind))
    scaling.emplace_back("original_max_position_embeddings", s.original_positions);
  Json::Object parameters = scaling;
  parameters.emplace_back("rope_theta", theta);
  const bool scaled = is_scaled(s.kind);
  return {{"rope_theta", theta},
          {"rope_scaling", scaled ? Json(std::move(scaling)) : Json()},
          {"rope_parameters", std::move(parameters)}};
}

}  // namespace trireme::interop
