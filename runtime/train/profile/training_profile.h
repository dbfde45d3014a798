// --profile-ops: one rank of each pipeline stage profiles one step, and rank 0 writes them all.
#pragma once

#include <memory>
#include <optional>

#include "trireme/train/metrics.h"

#include "runtime/plan/planned_training.h"
#include "runtime/train/profile/profile_report.h"

namespace trireme::train {

struct TrainingProfile {
  StepProfile steps;
  DeviceLimits limits;
};

/// On all ranks at the same time, since they share what is measured; before memory is allocated.
/// Null without --profile-ops, and on ranks that profile nothing.
std::unique_ptr<TrainingProfile> plan_profile(const Context& context, const PlannedTraining& plan);

/// Collective, after the profiled step: rank 0 writes the profiles of all stages. `profile`: of
/// this rank, may be null.
void report_profile(const Context& context, TrainingProfile* profile, const StepMetrics& metrics,
                    std::optional<double> ms_of_step_before);

}  // namespace trireme::train
