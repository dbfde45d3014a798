#include "runtime/cost/reductions.h"

#include <algorithm>
#include <numeric>

#include "runtime/core/at.h"
#include "runtime/optim/optimizer.h"

namespace trireme::cost {
namespace {

using Kind = CollectiveWork::Kind;

double f32_bytes(Index count) { return static_cast<double>(count * size_bytes(DType::f32)); }

/// When each call of the last micro-batch of a chunk begins.
struct LastBegin {
  double backward = 0, parameter_backward = 0;
};

LastBegin last_begin(const std::vector<pipeline::TimedSpan>& spans, int chunk, Index last,
                     const ChunkTime& time) {
  LastBegin begin;
  for (const pipeline::TimedSpan& span : spans) {
    if (span.work.chunk != chunk || span.work.micro_batch != last) continue;
    if (span.work.kind == WorkKind::backward)
      begin = {span.begin, span.begin + time.backward.seconds};
    if (span.work.kind == WorkKind::backward_input) begin.backward = span.begin;
    if (span.work.kind == WorkKind::backward_weight) begin.parameter_backward = span.begin;
  }
  return begin;
}

/// Per bucket. Parameters that get no gradient are ready when the step begins.
std::vector<double> bucket_times(const PlannedTraining& plan, const StageTime& time,
                                 const std::vector<pipeline::TimedSpan>& spans) {
  const Index last = plan.train.program().shape.micro_batches - 1;
  std::vector<double> ready(plan.flat.buckets().size(), 0);
  for (std::size_t c = 0; c < time.chunks.size(); ++c) {
    const auto chunk = static_cast<int>(c);
    const LastBegin begin = last_begin(spans, chunk, last, time.chunks[c]);
    const auto take = [&](const CallTime& call, double call_begin) {
      for (const CallTime::Ready& one : call.ready) {
        double& bucket = ready[at(plan.flat.bucket_of(chunk)[at(one.position)])];
        bucket = std::max(bucket, call_begin + one.seconds);
      }
    };
    take(time.chunks[c].backward, begin.backward);
    take(time.chunks[c].parameter_backward, begin.parameter_backward);
  }
  return ready;
}

/// The queues of a rank: a bucket's sum over data starts when the next bucket is ready, if it waits
/// for a sum over the tensor axis (GradientReducer).
class Queues {
 public:
  Queues(const PlannedTraining& plan, int stage, const Profile& profile, const Network& network)
      : plan_(plan), stage_(stage), profile_(profile), network_(network) {}

  void start(int bucket, double now) {
    start_pending(now);
    const FlatRange terms = plan_.flat.buckets()[at(bucket)].over_tensor;
    if (terms.count == 0) return start_data(bucket, now);
    pending_ = bucket;
    run(tensor_free_, now, {Kind::all_reduce, 1, f32_bytes(terms.count)}, Role::tensor);
  }
  void start_pending(double now) {
    if (pending_ < 0) return;
    start_data(pending_, std::max(now, tensor_free_));
    pending_ = -1;
  }
  double free() const { return std::max(tensor_free_, data_free_); }
  double traffic() const { return traffic_; }

 private:
  void start_data(int bucket, double now) {
    const Bucket& b = plan_.flat.buckets()[at(bucket)];
    const bool sharded = plan_.flat.options().update == Update::sharded;
    if (b.tie >= 0 && !sharded) return;  // summed with its holders
    run(data_free_, now,
        {sharded ? Kind::reduce_scatter : Kind::all_reduce, 1, f32_bytes(b.range.count)},
        Role::gradient);
  }
  void run(double& queue, double now, const CollectiveWork& work, Role role) {
    const double seconds =
        collective_time(work, group_of(plan_.spec.mesh, role, stage_), profile_, network_);
    if (seconds == 0) return;
    queue = std::max(queue, now) + seconds;
    traffic_ += seconds;
  }

  const PlannedTraining& plan_;
  const int stage_;
  const Profile& profile_;
  const Network& network_;
  int pending_ = -1;
  double tensor_free_ = 0, data_free_ = 0, traffic_ = 0;
};

/// How the holders of a tied parameter lie on nodes, of data ranks from `begin` to `end`.
Spread spread_of_tie(const PlannedTraining& plan, int tie, int begin, int end,
                     const Network& network) {
  std::vector<int> ranks;
  for (const int holder : plan.flat.ties()[at(tie)])
    for (int data = begin; data < end; ++data)
      ranks.push_back(plan.spec.mesh.rank_at({{Role::stage, holder}, {Role::gradient, data}}));
  return spread_of(ranks, network);
}

double elements_in_norm(const FlatLayout& flat) {
  double sum = 0;
  for (const FlatParameter& parameter : flat.parameters()) {
    const Bucket& bucket = flat.bucket_with(parameter);
    if (!parameter.owned || bucket.frozen) continue;
    const FlatRange slice = bucket.slice;
    const Index begin = std::max(slice.begin, parameter.range.begin);
    sum += static_cast<double>(
        std::max<Index>(0, std::min(slice.end(), parameter.range.end()) - begin));
  }
  return sum;
}

}  // namespace

Reductions reduce_buckets(const PlannedTraining& plan, int stage, const StageTime& time,
                          const std::vector<pipeline::TimedSpan>& spans, double stage_end,
                          const Profile& profile, const Network& network) {
  const std::vector<double> ready = bucket_times(plan, time, spans);
  std::vector<int> order(ready.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return ready[at(a)] < ready[at(b)]; });
  Queues queues(plan, stage, profile, network);
  for (const int bucket : order) queues.start(bucket, ready[at(bucket)]);
  queues.start_pending(stage_end);
  return {std::max(stage_end, queues.free()), queues.traffic()};
}

double tie_time(const PlannedTraining& plan, int tie, const Profile& profile,
                const Network& network) {
  const auto seconds = [&](int begin, int end) {
    const Spread group = spread_of_tie(plan, tie, begin, end, network);
    double sum = 0;
    for (const Bucket& bucket : plan.flat.buckets())
      if (bucket.tie == tie)
        sum += ring_time({Kind::all_reduce, 1, f32_bytes(plan.flat.updated(bucket).count)}, group,
                         profile, network);
    return sum;
  };
  const int ranks = plan.spec.mesh.size(Role::gradient);
  if (plan.flat.options().update != Update::sharded) return seconds(0, ranks);
  // Slices of each data rank meet alone. Nodes divide them as those of one that is as many data
  // ranks before it as a node has ranks.
  double slowest = 0;
  for (int data = 0; data < std::min(ranks, network.ranks_per_node); ++data)
    slowest = std::max(slowest, seconds(data, data + 1));
  return slowest;
}

double agreement_time(const MeshShape& mesh, const Profile& profile, const Network& network) {
  double seconds = 0;
  for (const MeshShape::Extent& extent : mesh.axes())
    seconds +=
        collective_time({Kind::all_reduce, 1, 8}, group_of(mesh, extent.axis), profile, network);
  return seconds;
}

UpdateTime update_time(const PlannedTraining& plan, int stage, const Profile& profile,
                       const Network& network) {
  const FlatLayout& flat = plan.flat;
  const Group data = group_of(plan.spec.mesh, Role::gradient, stage);
  const bool gathers = flat.options().update == Update::sharded && data.size > 1;
  const double each = update_cost(plan.spec.optimizer, plan.spec.compute).bytes;
  UpdateTime time;
  const double rate = profile.loop_rate("update", false);
  time.norm =
      4 * elements_in_norm(flat) / profile.loop_rate("gradient_norm", false) + profile.op_seconds;
  double gathered = 0;
  for (const Bucket& bucket : flat.buckets()) {
    time.update += each * static_cast<double>(flat.updated(bucket).count) / rate;
    if (!gathers) continue;
    time.update += profile.op_seconds;
    const double bytes =
        static_cast<double>(bucket.range.count * size_bytes(flat.options().compute));
    const double seconds = collective_time({Kind::all_gather, 1, bytes}, data, profile, network);
    gathered = std::max(gathered, time.update) + seconds;
    time.traffic += seconds;
  }
  if (!gathers) time.update += profile.op_seconds;
  time.gather = std::max(0.0, gathered - time.update);
  return time;
}

}  // namespace trireme::cost
