// HealthMonitor: a thread that asks NVML for the state of GPUs while a job runs. It only sleeps and
// reads.
//
// Not installed; modules above may include it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "runtime/observe/gpu_health/health_watch.h"

namespace trireme::observe {

struct HealthPeriods {
  int event_ms = 200;  // most time between looks at events
  double clocks_s = 1, reading_s = 10;
};

class HealthMonitor {
 public:
  /// `take` is called by the thread with each finding.
  HealthMonitor(std::unique_ptr<Nvml> nvml, std::vector<int> gpus,
                std::function<void(const HealthFinding&)> take, const HealthPeriods& periods = {});
  /// Waits for the thread, but not for a call of the driver that does not return.
  ~HealthMonitor();
  HealthMonitor(const HealthMonitor&) = delete;
  HealthMonitor& operator=(const HealthMonitor&) = delete;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;  // the thread may outlive this object
  std::thread thread_;
};

/// A finding as others read it: a line of JSON in a file that each node of a job appends to.
struct HealthReport {
  std::string host;
  int rank = 0;  // that found it
  HealthAction action = HealthAction::report;
  std::string text;
};
std::string to_line(const HealthReport& report);
/// Lines that are none, as of a writer that was killed, are left out.
std::vector<HealthReport> parse_health_reports(std::string_view text);
/// Creates the file; false where it cannot be written.
bool append_health_report(const std::string& path, const HealthReport& report);

}  // namespace trireme::observe
