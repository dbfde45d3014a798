#include "runtime/observe/gpu_health/health_watch.h"

#include <algorithm>

#include "trireme/core/error.h"

#include "runtime/core/median.h"
#include "runtime/observe/stragglers.h"

namespace trireme::observe {
namespace {

constexpr double window_s = 60, most_share = 0.1;
constexpr double longest_gap_s = 5;  // between looks at the clocks; what is longer is not counted
constexpr int near_slowdown = 3;     // degrees
constexpr double rate_factor = 10;
constexpr std::size_t rates_kept = 360, fewest_rates = 6;  // readings

}  // namespace

std::string text_of(const HealthFinding& finding) {
  // The meaning of a sign does not depend on how often it was seen, but for its weight.
  for (const HealthRule& rule : health_rules())
    if (rule.sign == finding.sign && rule.action == finding.action &&
        (rule.code == finding.code || rule.code == HealthRule::any_code))
      return str("GPU ", finding.gpu, ": ", text_of(finding.sign, finding.code), ": ", rule.meaning,
                 finding.detail.empty() ? "" : " (" + finding.detail + ")");
  return str("GPU ", finding.gpu, ": ", text_of(finding.sign, finding.code));
}

void HealthWatch::count(HealthSign sign, std::uint64_t code, const std::string& detail,
                        Found& found) {
  const int times = ++times_[{sign, code}];
  const HealthAction action = health_rule(sign, code, times).action;
  if (times > 1 && action == health_rule(sign, code, times - 1).action) return;
  found.push_back({gpu_, sign, code, action, detail});
}

void HealthWatch::state(bool holds, HealthSign sign, std::uint64_t code, const std::string& detail,
                        Found& found) {
  bool& before = holds_[{sign, code}];
  if (holds && !before) count(sign, code, detail, found);
  before = holds;
}

std::vector<HealthFinding> HealthWatch::event(const GpuEvent& event) {
  Found found;
  if (event.is_xid)
    count(HealthSign::xid, event.xid, "", found);
  else
    count(HealthSign::uncorrected_ecc, 0, "", found);
  return found;
}

std::vector<HealthFinding> HealthWatch::reading(const GpuReading& now) {
  Found found;
  state(now.lost, HealthSign::gpu_lost, 0, "", found);
  if (now.lost) return found;
  const std::uint64_t recovery = now.recovery_action.value_or(0);
  if (recovery != 0) state(true, HealthSign::recovery_action, recovery, "", found);
  state(now.remap_failed.value_or(false), HealthSign::remap_failed, 0, "", found);
  state(now.remap_pending.value_or(false), HealthSign::remap_pending, 0, "", found);
  const bool hot = now.temperature && now.slowdown_temperature &&
                   *now.temperature >= *now.slowdown_temperature - near_slowdown;
  state(hot, HealthSign::temperature, 0,
        hot ? str(*now.temperature, " C, slowdown at ", *now.slowdown_temperature, " C") : "",
        found);
  ecc(now, found);
  if (before_ && before_->nvlink_errors && now.nvlink_errors &&
      *now.nvlink_errors > *before_->nvlink_errors)
    count(HealthSign::nvlink_errors, 0, str(*now.nvlink_errors - *before_->nvlink_errors, " more"),
          found);
  before_ = now;
  return found;
}

/// Counters of errors: what they were when the job began says nothing about it.
void HealthWatch::ecc(const GpuReading& now, Found& found) {
  if (!before_) return;
  if (before_->uncorrected_ecc && now.uncorrected_ecc &&
      *now.uncorrected_ecc > *before_->uncorrected_ecc)
    count(HealthSign::uncorrected_ecc, 0,
          str(*now.uncorrected_ecc - *before_->uncorrected_ecc, " more"), found);
  if (!before_->corrected_ecc || !now.corrected_ecc || *now.corrected_ecc < *before_->corrected_ecc)
    return;
  const auto errors = static_cast<double>(*now.corrected_ecc - *before_->corrected_ecc);
  // Most GPUs have none at all: then a single one is no rate.
  const double usual = corrected_.size() < fewest_rates
                           ? errors
                           : std::max(1.0, median({corrected_.begin(), corrected_.end()}));
  if (errors > rate_factor * usual)
    count(HealthSign::corrected_ecc_rate, 0, str(errors, " since the reading before"), found);
  corrected_.push_back(errors);
  if (corrected_.size() > rates_kept) corrected_.pop_front();
}

double HealthWatch::Share::add(bool holds, double now) {
  if (holds && last >= 0) parts.emplace_back(now, std::min(now - last, longest_gap_s));
  last = now;
  while (!parts.empty() && parts.front().first <= now - window_s) parts.pop_front();
  double seconds = 0;
  for (const auto& [end, part] : parts) seconds += part;
  return seconds / window_s;
}

std::vector<HealthFinding> HealthWatch::clocks(const ClockLimits& limits, double now) {
  Found found;
  const auto look = [&](Share& share, bool holds, HealthSign sign) {
    const double part = share.add(holds, now);
    state(part > most_share, sign, 0, str(static_cast<int>(100 * part), " %"), found);
  };
  look(thermal_, limits.thermal, HealthSign::thermal_slowdown);
  look(power_brake_, limits.power_brake, HealthSign::power_brake);
  return found;
}

}  // namespace trireme::observe
