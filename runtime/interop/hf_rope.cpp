#include "runtime/interop/hf_rope.h"

#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "trireme/core/error.h"

#include "runtime/models/transformer_limits.h"

namespace trireme::interop {
namespace {

using Problems = std::vector<std::string>;

constexpr const char* types = "default, linear, dynamic, llama3 or yarn";

/// What one generation says; nothing where it says nothing.
struct Rope {
  std::optional<double> theta;
  RotaryScaling scaling = {};
  bool dynamic = false;
  Index original_positions = 0;  // 0: not said
};

bool is_object(const Json& json) { return std::holds_alternative<Json::Object>(json.value); }

float to_float(JsonKeys& keys, const char* key, double absent) {
  return static_cast<float>(keys.real(key, absent));
}

/// The amplitude by DeepSeek's two numbers; 0: the usual formula (Peng et al. 2023).
double amplitude_of(JsonKeys& keys, double factor) {
  const double above = keys.real("mscale", 0), below = keys.real("mscale_all_dim", 0);
  if (keys.has("attention_factor")) return keys.real("attention_factor", 0);
  if (above == 0 || below == 0 || factor <= 1) return 0;
  const auto scale = [&](double m) { return 0.1 * m * std::log(factor) + 1; };
  return scale(above) / scale(below);
}

void read_yarn(JsonKeys& keys, Rope& rope, Index max_positions) {
  RotaryScaling& s = rope.scaling;
  s.kind = RotaryScalingKind::yarn;
  s.factor = static_cast<float>(keys.real("factor"));
  s.original_positions = rope.original_positions > 0 ? rope.original_positions : max_positions;
  s.beta_fast = to_float(keys, "beta_fast", 32);
  s.beta_slow = to_float(keys, "beta_slow", 1);
  s.attention_factor = static_cast<float>(amplitude_of(keys, static_cast<double>(s.factor)));
  if (!keys.flag("truncate", true))
    keys.problem("truncate is false; trireme rounds the ends of yarn's ramp (truncate true)");
}

void read_llama3(JsonKeys& keys, Rope& rope) {
  RotaryScaling& s = rope.scaling;
  s.kind = RotaryScalingKind::llama3;
  s.factor = static_cast<float>(keys.real("factor"));
  s.original_positions =
      keys.whole("original_max_position_embeddings", TransformerLimits::positions);
  s.low_frequency_factor = static_cast<float>(keys.real("low_freq_factor"));
  s.high_frequency_factor = static_cast<float>(keys.real("high_freq_factor"));
}

/// `keys`: of rope_scaling or rope_parameters.
Rope read_object(JsonKeys& keys, Index max_positions) {
  Rope rope;
  if (keys.has("rope_theta")) rope.theta = keys.real("rope_theta", 0);
  if (keys.real("partial_rotary_factor", 1) != 1)
    keys.problem("partial_rotary_factor is ", shown(*keys.find("partial_rotary_factor")),
                 "; trireme turns all channels of a head (1)");
  const bool named = keys.has("type") || keys.has("rope_type");
  const std::string old_name = keys.word("type", "default");
  const std::string type = keys.word("rope_type", old_name);
  if (type != "llama3")
    rope.original_positions =
        keys.whole("original_max_position_embeddings", TransformerLimits::positions, 0);
  if (type == "linear") {
    rope.scaling.kind = RotaryScalingKind::linear;
    rope.scaling.factor = static_cast<float>(keys.real("factor"));
  } else if (type == "dynamic") {
    rope.dynamic = true;
    keys.real("factor", 1);
  } else if (type == "llama3") {
    read_llama3(keys, rope);
  } else if (type == "yarn") {
    read_yarn(keys, rope, max_positions);
  } else if (type != "default") {
    keys.problem("rope_type is ", shown(type), "; trireme has ", types);
    return rope;
  }
  if (type != "default" || !named)
    for (const std::string& key : keys.unread())
      keys.problem(key, " is not understood for rope_type ", type);
  return rope;
}

/// Nothing when the member is absent or null.
std::optional<Rope> read_member(JsonKeys& keys, const char* name, const HfConfig& config,
                                Problems& problems) {
  if (!keys.has(name)) return std::nullopt;
  const Json& member = *keys.find(name);
  if (!is_object(member)) {
    keys.problem(name, " is ", shown(member), "; expected an object, or null");
    return std::nullopt;
  }
  for (const auto& [key, value] : std::get<Json::Object>(member.value))
    if (is_object(value)) {
      keys.problem(name, ".", key, ": positions that differ by layer are not understood");
      return std::nullopt;
    }
  JsonKeys inside(member, std::string(name) + ".", problems);
  return read_object(inside, config.max_positions);
}

/// What is compared of two generations.
std::string facts_of(const TransformerConfig& model, const Rope& rope) {
  TransformerConfig other = model;
  other.rotary_scaling = rope.scaling;
  std::string all = rope.dynamic ? "dynamic" : "";
  for (const auto& [field, value] : other.identity()) all += field + " " + value + "\n";
  return all;
}

std::string type_of(const Rope& rope) { return rope.dynamic ? "dynamic" : name(rope.scaling.kind); }

/// Two bases are one to the model, which has them as floats.
bool is_same_base(double a, double b) { return static_cast<float>(a) == static_cast<float>(b); }

/// A file that has both must say the same twice.
void compare(JsonKeys& keys, const HfConfig& config, const Rope& old, const Rope& now) {
  if (old.theta && now.theta && !is_same_base(*old.theta, *now.theta))
    keys.problem("rope_scaling.rope_theta is ", *old.theta, ", but rope_parameters.rope_theta is ",
                 *now.theta, "; one of them is wrong");
  if (facts_of(config.model, old) != facts_of(config.model, now))
    keys.problem("rope_scaling (", type_of(old), ") and rope_parameters (", type_of(now),
                 ") differ; one of them is wrong");
}

/// The base beside an object, which may have its own, says the same.
void compare_theta(JsonKeys& keys, double theta, const char* name,
                   const std::optional<Rope>& rope) {
  if (rope && rope->theta && !is_same_base(*rope->theta, theta))
    keys.problem("rope_theta is ", theta, ", but ", name, ".rope_theta is ", *rope->theta,
                 "; one of them is wrong");
}

/// The length of the first training beside an object, which transformers 5 prefers, says the same.
void compare_positions(JsonKeys& keys, const RotaryScaling& scaling) {
  const bool reads =
      scaling.kind == RotaryScalingKind::llama3 || scaling.kind == RotaryScalingKind::yarn;
  if (!reads || !keys.has("original_max_position_embeddings")) return;
  const Index positions =
      keys.whole("original_max_position_embeddings", TransformerLimits::positions);
  if (positions != scaling.original_positions)
    keys.problem("original_max_position_embeddings is ", positions, ", but rope type ",
                 name(scaling.kind), " has ", scaling.original_positions, "; one of them is wrong");
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

void read_rope(JsonKeys& keys, HfConfig& config, Problems& problems) {
  constexpr double usual_theta = 10000;  // of all families that are read
  std::optional<Rope> old = read_member(keys, "rope_scaling", config, problems),
                      now = read_member(keys, "rope_parameters", config, problems);
  const bool has_theta = keys.has("rope_theta");
  const double theta = keys.real("rope_theta", usual_theta);
  if (has_theta) {
    compare_theta(keys, theta, "rope_scaling", old);
    compare_theta(keys, theta, "rope_parameters", now);
  }
  if (old && now) compare(keys, config, *old, *now);
  const Rope rope = now ? *now : old ? *old : Rope{};
  const double base = rope.theta.value_or(theta);
  if (!(base > 0)) keys.problem("rope_theta is ", base, "; expected a number above 0");
  config.model.rotary_base = static_cast<float>(base);
  config.model.rotary_scaling = rope.scaling;
  compare_positions(keys, rope.scaling);
  if (rope.dynamic) limit_dynamic(config, rope);
}

Json::Object rope_members(const TransformerConfig& model) {
  const RotaryScaling& s = model.rotary_scaling;
  const double theta = shortest(model.rotary_base);
  Json::Object scaling = {{"rope_type", name(s.kind)}};
  const auto add = [&](const char* key, float value) {
    scaling.emplace_back(key, shortest(value));
  };
  if (s.kind != RotaryScalingKind::none) add("factor", s.factor);
  if (s.kind == RotaryScalingKind::llama3) {
    add("low_freq_factor", s.low_frequency_factor);
    add("high_freq_factor", s.high_frequency_factor);
  }
  if (s.kind == RotaryScalingKind::yarn) {
    add("beta_fast", s.beta_fast);
    add("beta_slow", s.beta_slow);
    add("attention_factor", static_cast<float>(rotary_amplitude(s)));
  }
  if (s.kind == RotaryScalingKind::llama3 || s.kind == RotaryScalingKind::yarn)
    scaling.emplace_back("original_max_position_embeddings", s.original_positions);
  Json::Object parameters = scaling;
  parameters.emplace_back("rope_theta", theta);
  const bool scaled = s.kind != RotaryScalingKind::none;
  return {{"rope_theta", theta},
          {"rope_scaling", scaled ? Json(std::move(scaling)) : Json()},
          {"rope_parameters", std::move(parameters)}};
}

}  // namespace trireme::interop
