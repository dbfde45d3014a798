// Sums of gradients beside backward, as GradientReducer runs them: a second queue that starts each
// bucket when its last gradient is ready. And the update that follows, which gathers beside itself.
//
// Not installed; modules above may include it.
#pragma once

#include <vector>

#include "runtime/cost/stage_time.h"

namespace trireme::cost {

/// When the gradients of one stage are reduced. Times are seconds of the step.
struct Reductions {
  double end = 0;      // the sums over tensor and data axes are done, and so is the stage
  double traffic = 0;  // what they take together
};
/// `stage`: may be another one than that of the plan, which is alike. `spans`: what it has run;
/// `stage_end`: when it is done.
Reductions reduce_buckets(const PlannedTraining& plan, int stage, const StageTime& time,
                          const std::vector<pipeline::TimedSpan>& spans, double stage_end,
                          const Profile& profile, const Network& network);

/// Seconds of the sums of tied parameter `tie` (FlatLayout::ties) over its holders.
double tie_time(const PlannedTraining& plan, int tie, const Profile& profile,
                const Network& network);

/// The norm is summed over all ranks: counted as a ring for each axis, as one ring of all would
/// take far longer than what libraries do.
double agreement_time(const MeshShape& mesh, const Profile& profile, const Network& network);

struct UpdateTime {
  double norm = 0;    // norm of the gradients of this rank
  double update = 0;  // update of parameters
  double gather = 0;  // after the last update, until all parameters are there
  double traffic = 0;
};
UpdateTime update_time(const PlannedTraining& plan, int stage, const Profile& profile,
                       const Network& network);

}  // namespace trireme::cost
