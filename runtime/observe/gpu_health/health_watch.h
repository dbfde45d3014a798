// HealthWatch: signs of one GPU, from what NVML says of it over time. It asks nothing itself.
//
// Not installed; modules above may include it.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/observe/gpu_health/health_rules.h"
#include "runtime/observe/gpu_health/nvml.h"

namespace trireme::observe {

/// A sign of a GPU, and what the rules say of it.
struct HealthFinding {
  int gpu = 0;
  HealthSign sign = HealthSign::xid;
  std::uint64_t code = 0;
  HealthAction action = HealthAction::report;
  std::string detail = {};  // figures; may be empty
};
/// "GPU 3: Xid 79: the GPU has fallen off the bus"
std::string text_of(const HealthFinding& finding);

/// Times are seconds of a steady clock, not falling. A sign is found once, and again when a rule
/// gives it more weight.
class HealthWatch {
 public:
  explicit HealthWatch(int gpu) : gpu_(gpu) {}

  std::vector<HealthFinding> event(const GpuEvent& event);
  /// At regular intervals.
  std::vector<HealthFinding> reading(const GpuReading& reading);
  /// About once a second.
  std::vector<HealthFinding> clocks(const ClockLimits& limits, double now);

 private:
  using Found = std::vector<HealthFinding>;
  void count(HealthSign sign, std::uint64_t code, const std::string& detail, Found& found);
  /// A state that holds counts once until it ends.
  void state(bool holds, HealthSign sign, std::uint64_t code, const std::string& detail,
             Found& found);
  void ecc(const GpuReading& reading, Found& found);

  /// How long one reason has lowered clocks within the last minute.
  struct Share {
    std::deque<std::pair<double, double>> parts;  // end, seconds
    double last = -1;
    double add(bool holds, double now);
  };

  using Key = std::pair<HealthSign, std::uint64_t>;
  int gpu_;
  std::map<Key, int> times_;
  std::map<Key, bool> holds_;
  std::optional<GpuReading> before_;
  std::deque<double> corrected_;  // errors between readings
  Share thermal_, power_brake_;
};

}  // namespace trireme::observe
