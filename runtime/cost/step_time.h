// The time of a training step: the plan's own list of steps, the flat parameters' own buckets and
// the schedule's own program, with a time on each. Overlap is simulated, not a parameter.
//
// Not installed; modules above may include it.
#pragma once

#include <vector>

#include "runtime/cost/network.h"
#include "runtime/cost/planned_layout.h"

namespace trireme::cost {

/// Seconds of one step, on the critical stage: the one that computes longest. The parts add up to
/// the total.
struct StepTime {
  double total = 0;
  double products = 0, attention = 0, memory_bound = 0;  // recomputation included
  double tensor_traffic = 0;                             // collectives of the tensor axis
  double host = 0;                                       // the device waits for the host
  double exchange = 0;                                   // between stages, not hidden
  double data_traffic = 0;                               // gradients and parameters, not hidden
  double contention = 0;                                 // work slowed by hidden traffic
  double optimizer = 0;
  double bubble = 0;  // the critical stage waits for others, transfers not counted

  int critical_stage = 0;
  double hidden_traffic = 0;  // not in the total
  double recompute = 0;       // the part of the first four that is done again
};

StepTime step_time(const PlannedLayout& layout, const Profile& profile, const Network& network);
/// Stages on different types of device: a profile for each.
StepTime step_time(const PlannedLayout& layout, const std::vector<const Profile*>& stages,
                   const Network& network);

/// Never more than step_time() of the candidate: its products at the profile's best rate for any
/// shape, spread over all ranks in whatever way, with what its stages wait at least. No plan is
/// made. `flops`: LayoutPlanner::flops_per_sample().
double least_step_time(const Candidate& candidate, double flops, const Profile& profile);

/// Returns what the tightest rank needs on its device: the plan, the context, the communicators.
Index device_bytes(const PlannedLayout& layout, const Profile& profile);

}  // namespace trireme::cost
