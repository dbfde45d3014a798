// What signs of GPUs mean for a job: one table (health_rules.cpp, docs/gpu/health.md).
//
// Not installed; modules above may include it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace trireme::observe {

enum class HealthSign {
  xid,
  recovery_action,
  gpu_lost,
  uncorrected_ecc,
  corrected_ecc_rate,
  remap_failed,
  remap_pending,
  nvlink_errors,
  thermal_slowdown,
  power_brake,
  temperature
};
inline constexpr int health_sign_count = static_cast<int>(HealthSign::temperature) + 1;
const char* name(HealthSign sign);

/// The actions are in order of weight.
enum class HealthAction {
  report,   // it explains a slow rank, or nothing
  program,  // an error of the program: no node is blamed
  leave,    // the node is left at the next durable step if a spare is there, else reported
  fatal     // the rank ends, and the node is left at once
};
inline constexpr int health_action_count = static_cast<int>(HealthAction::fatal) + 1;
const char* name(HealthAction action);

struct HealthRule {
  static constexpr std::uint64_t any_code = UINT64_MAX;  // that no other rule of the sign has
  HealthSign sign;
  std::uint64_t code;  // Xid, or recovery action; 0 where the sign has none
  int times;           // how often on one GPU in one attempt, from which on it holds
  HealthAction action;
  std::string_view meaning;
};

std::span<const HealthRule> health_rules();
/// The rule for a sign that a GPU has shown so many times.
const HealthRule& health_rule(HealthSign sign, std::uint64_t code, int times);
/// "Xid 79", "recovery action 1", "remap pending"
std::string text_of(HealthSign sign, std::uint64_t code);

}  // namespace trireme::observe
