// The time of the calls of one stage's chunks, from the lists of steps of their plans.
//
// Not installed; modules above may include it.
#pragma once

#include <vector>

#include "runtime/cost/op_time.h"
#include "runtime/pipeline/simulate.h"
#include "runtime/rank_plan/planned_training.h"

namespace trireme::cost {

/// A group along one axis, or along the only axis of a role.
Group group_of(const MeshShape& mesh, MeshShape::Along along);
/// Returns the group within a pipeline rank; not for Role::stage.
Group group_of(const MeshShape& mesh, Role role, int pipeline_rank);

/// Seconds of a message from each rank of pipeline rank `from` to the one of `to` in its pipeline:
/// the slowest, as some may share a node where others do not.
double hop_time(double bytes, int from, int to, const MeshShape& mesh, const Profile& profile,
                const Network& network);

/// One call of an executor: forward, backward, or the half of backward that makes the gradients of
/// parameters.
struct CallTime {
  OpTime parts, again;  // `again`: the part that recomputes
  double seconds = 0;   // what the device or the host is busy, whichever is longer
  struct Ready {
    double seconds;  // after the begin of the call
    int position;    // in Plan::parameters()
  };
  std::vector<Ready> ready;

  /// Returns the part of `seconds` that is not work of the device.
  double host() const { return seconds - parts.device(); }
};

struct ChunkTime {
  CallTime forward, backward, parameter_backward;

  pipeline::Costs costs(const pipeline::TransferCosts& transfer) const {
    return {forward.seconds, backward.seconds, parameter_backward.seconds, transfer};
  }
  double seconds() const { return forward.seconds + backward.seconds + parameter_backward.seconds; }
};

/// `tensor`: the group of the tensor axis.
ChunkTime chunk_time(const Plan& chunk, const Profile& profile, const Group& tensor,
                     const Network& network);

/// The time of one micro-batch.
struct StageTime {
  std::vector<ChunkTime> chunks;
  OpTime parts, again;
  double host = 0;
  double seconds = 0;
};
StageTime stage_time(const PlannedTraining& plan, const Profile& profile, const Network& network);

}  // namespace trireme::cost
