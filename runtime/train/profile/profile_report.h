// What --profile-ops writes: the work of a step by op and phase, with times where there are any, as
// JSON for programs and as a table for people (docs/profiling.md).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trireme/train/metrics.h"

#include "runtime/core/json/json.h"
#include "runtime/rank_plan/planned_training.h"
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
  std::vector<StepProfile::Times> times;  // by row of the table
  DeviceLimits limits;
  double wall_ms = 0;                    // the step's time by the host's clock
  std::optional<double> wall_ms_before;  // that of the step before, which recorded nothing
};

/// Returns one rank's part; without `profiled`, only counts.
Json profile_json(const StepTable& table, const Context& context,
                  const ProfiledStep* profiled = nullptr);
/// Shows as a table what profile_json() made, of one stage or of several ("stages").
std::string profile_table(const Json& profile);

/// --profile-ops: one rank of each pipeline stage profiles one step, and rank 0 writes them all.
struct TrainingProfile {
  StepProfile steps;
  DeviceLimits limits;
};

/// Measures the limits of the device. Called on all ranks at the same time, since they share what
/// is measured, and before memory is allocated. Returns null without --profile-ops, and on ranks
/// that profile nothing.
std::unique_ptr<TrainingProfile> plan_profile(const Context& context, const PlannedTraining& plan);

/// Collective, after the profiled step. Rank 0 writes the profiles of all stages. `profile`: this
/// rank's, which may be null.
void report_profile(const Context& context, TrainingProfile* profile, const StepMetrics& metrics,
                    std::optional<double> ms_of_step_before);

}  // namespace trireme::train
