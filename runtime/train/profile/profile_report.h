// What --profile-ops writes: the work of a step by op and phase, with times where there are any, as
// JSON for programs and as a table for people (docs/profiling.md).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/core/json/json.h"
#include "runtime/train/profile/step_profile.h"

namespace trireme::train {

/// The measured limits of this device: no op is faster than the slower of the two allows.
struct DeviceLimits {
  double copy_bytes_per_s = 0;     // read and written
  double product_flops_per_s = 0;  // in the type that is computed with; 0: no memory to measure in
  double seconds(const StepRow& row) const;
};
DeviceLimits measure_limits(const Context& context);

/// A step that was profiled.
struct ProfiledStep {
  Index step = 0;
  std::vector<StepProfile::Times> times;  // of the rows
  DeviceLimits limits;
  double wall_ms = 0;                    // of the step by the host's clock
  std::optional<double> wall_ms_before;  // of the step before, which recorded nothing
};

/// One rank's part. Without `profiled`: counts alone.
Json profile_json(const StepTable& table, const Context& context,
                  const ProfiledStep* profiled = nullptr);
/// As profile_json() made it, of one stage or of several ("stages").
std::string profile_table(const Json& profile);

}  // namespace trireme::train
