// Executes training steps of a layout on simulated ranks: the executors, the pipeline, the reducer
// and the optimizer of the runtime, on devices and a transport whose time is computed.
#pragma once

#include <vector>

#include "runtime/cost/network.h"
#include "runtime/cost/planned_layout.h"

namespace trireme::virtual_clock {

/// Seconds; times since the job began.
struct ExecutedRank {
  double backward = 0;  // when its last micro-batch is done
  double summed = 0;    // when its gradients are summed
  double updated = 0;   // when its parameters are there
  double busy = 0;      // that its device has computed in this step
};

struct ExecutedStep {
  double begin = 0;  // the last rank was done with the step before
  std::vector<ExecutedRank> ranks;

  double end() const;  // the last rank is done
  double seconds() const { return end() - begin; }
  double backward() const;  // the last rank is done with its micro-batches
  double summed() const;    // all gradients are summed
  /// Mean share of the step in which devices compute.
  double busy() const;
};

/// `profile`: of every rank; its contention is not simulated. Throws: Error of the rank that failed
/// first.
std::vector<ExecutedStep> execute(const Model& model, const TrainingSpec& spec,
                                  const cost::Profile& profile, const cost::Network& network,
                                  int steps = 1);

}  // namespace trireme::virtual_clock
