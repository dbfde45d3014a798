#include "runtime/cost/stage_time.h"

#include <algorithm>

namespace trireme::cost {
namespace {

CallTime call_time(const Plan& plan, StepWork::Call call, const Profile& profile,
                   const Group& tensor, const Network& network) {
  CallTime time;
  for (const StepWork& work : plan.work()) {
    if (work.call != call) continue;
    const OpTime step = op_time(work, profile, tensor, network);
    time.parts += step;
    if (work.phase == StepWork::Phase::recompute) time.again += step;
    for (const int position : work.ready) time.ready.push_back({time.parts.device(), position});
  }
  const double device = time.parts.device(), host = time.parts.host;
  time.seconds = profile.queues ? std::max(device, host) : device + host;
  for (CallTime::Ready& ready : time.ready)
    ready.seconds *= device == 0 ? 1 : time.seconds / device;
  return time;
}

}  // namespace

Group group_of(const MeshShape& mesh, MeshShape::Along along) {
  const int size = mesh.size(along);
  return {size, size == 1 ? 1 : mesh.rank_at({{along, 1}}), mesh.size()};
}

Group group_of(const MeshShape& mesh, Role role, int pipeline_rank) {
  Group group = group_of(mesh, role);
  group.ranks = mesh.size(Role::layers);
  group.first = pipeline_rank * group.ranks;
  return group;
}

// Ranks of a pipeline rank are neighbours, and nodes are filled in the order of ranks. So a node
// ends between the first and the last of both pipeline ranks if and only if it ends between some
// two that exchange messages.
double hop_time(double bytes, int from, int to, const MeshShape& mesh, const Profile& profile,
                const Network& network) {
  if (from == to) return 0;
  const int ranks = mesh.size(Role::layers);  // of a pipeline rank
  const int first = std::min(from, to) * ranks, last = (std::max(from, to) + 1) * ranks - 1;
  return message_time(bytes, first, last, profile, network);
}

ChunkTime chunk_time(const Plan& chunk, const Profile& profile, const Group& tensor,
                     const Network& network) {
  using Call = StepWork::Call;
  const auto time = [&](Call call) { return call_time(chunk, call, profile, tensor, network); };
  return {time(Call::forward), time(Call::backward), time(Call::parameter_backward)};
}

StageTime stage_time(const PlannedTraining& plan, const Profile& profile, const Network& network) {
  const Group tensor = group_of(plan.spec.mesh, Role::tensor);
  StageTime stage;
  for (const Plan& chunk : plan.train.model().chunks) {
    stage.chunks.push_back(chunk_time(chunk, profile, tensor, network));
    const ChunkTime& calls = stage.chunks.back();
    for (const CallTime* call : {&calls.forward, &calls.backward, &calls.parameter_backward}) {
      stage.parts += call->parts;
      stage.again += call->again;
      stage.host += call->host();
    }
    stage.seconds += calls.seconds();
  }
  return stage;
}

}  // namespace trireme::cost
