#include "runtime/cost/step_time.h"

#include <algorithm>
#include <cmath>

#include "runtime/core/at.h"
#include "runtime/cost/reductions.h"
#include "runtime/cost/stage_time.h"

namespace trireme::cost {
namespace {

using Kind = CollectiveWork::Kind;

class Walk {
 public:
  Walk(const PlannedLayout& layout, const std::vector<const Profile*>& profiles,
       const Network& network)
      : layout_(layout), profiles_(profiles), network_(network) {
    for (std::size_t s = 0; s < layout.stages.size(); ++s) {
      const std::size_t like = first_alike(s);
      stages_.push_back(like < s ? stages_[like]
                                 : stage_time(*layout.stages[s], *profiles[s], network));
      updates_.push_back(update_time(plan(s), static_cast<int>(s), *profiles_[s], network_));
    }
  }

  StepTime time() {
    StepTime step;
    run_micro_batches(step);
    sum_gradients(step);
    update(step);
    step.total = now_;
    return step;
  }

 private:
  /// The first stage of the same plan and device.
  std::size_t first_alike(std::size_t stage) const {
    std::size_t first = 0;
    while (layout_.stages[first] != layout_.stages[stage] || profiles_[first] != profiles_[stage])
      ++first;
    return first;
  }

  const PlannedTraining& plan(std::size_t stage) const { return *layout_.stages[stage]; }

  /// The messages to and from a chunk of a stage.
  pipeline::TransferCosts transfer(std::size_t stage, std::size_t chunk) const {
    const Plan& plan = this->plan(stage).train.model().chunks[chunk];
    const PipelineShape shape = layout_.shape();
    const int here = static_cast<int>(stage);
    const int v = shape.virtual_stage(here, static_cast<int>(chunk));
    const auto time = [&](const Transfer& message, int neighbour) {
      if (message.bytes == 0) return 0.0;
      return hop_time(static_cast<double>(message.bytes), here, shape.stage_of(neighbour),
                      layout_.candidate.spec.mesh, *profiles_[stage], network_);
    };
    pipeline::TransferCosts costs;
    costs.values_in = time(plan.receive_values(), v - 1);
    costs.values_out = time(plan.send_values(), v + 1);
    costs.gradients_in = time(plan.receive_gradients(), v + 1);
    costs.gradients_out = time(plan.send_gradients(), v - 1);
    return costs;
  }

  /// Zeroes the gradients, then runs the schedule.
  void run_micro_batches(StepTime& step) {
    std::vector<std::vector<pipeline::Costs>> costs;
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      costs.emplace_back();
      for (std::size_t c = 0; c < stages_[s].chunks.size(); ++c)
        costs.back().push_back(stages_[s].chunks[c].costs(transfer(s, c)));
      const auto zeroed = static_cast<double>(plan(s).flat.gradient_bytes());
      step.optimizer =
          std::max(step.optimizer, zeroed / profiles_[s]->loop_rate("zero_gradients", false));
      if (stages_[s].seconds > stages_[at(step.critical_stage)].seconds)
        step.critical_stage = static_cast<int>(s);
    }
    simulation_ = pipeline::simulate(*layout_.programs, costs);
    require(simulation_.completed, "the schedule does not complete: ", simulation_.problem);
    add_work(step);
    now_ = simulation_.makespan;
    const double busy = stages_[at(step.critical_stage)].seconds * micro_batches();
    step.exchange = simulation_.transfer_waits[at(step.critical_stage)];
    step.bubble = std::max(0.0, now_ - busy - step.exchange);  // not -0 by rounding
  }

  double micro_batches() const { return static_cast<double>(layout_.shape().micro_batches); }

  void add_work(StepTime& step) const {
    const StageTime& critical = stages_[at(step.critical_stage)];
    const OpTime parts = critical.parts * micro_batches();
    step.products = parts.products;
    step.attention = parts.attention;
    step.memory_bound = parts.memory_bound;
    step.tensor_traffic = parts.tensor_traffic;
    step.host = critical.host * micro_batches();
    step.recompute = critical.again.device() * micro_batches();
  }

  void sum_gradients(StepTime& step) {
    const double computed = now_;
    std::vector<double> ends;
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      const double end = simulation_.ends[s];
      const Reductions sums = reduce_buckets(plan(s), static_cast<int>(s), stages_[s],
                                             simulation_.stages[s], end, *profiles_[s], network_);
      const double hidden = sums.traffic - (sums.end - end);
      const double slowed = profiles_[s]->contention * hidden;
      ends.push_back(sums.end + slowed);
      if (at(step.critical_stage) == s) step.hidden_traffic += hidden;
      if (ends.back() > now_) {
        now_ = ends.back();
        step.contention = std::min(slowed, now_ - computed);
      }
    }
    sum_ties(ends);
    step.data_traffic = now_ - computed - step.contention;
  }

  void sum_ties(std::vector<double>& ends) {
    const auto& ties = layout_.stages.front()->flat.ties();
    for (std::size_t t = 0; t < ties.size(); ++t) {
      double begin = 0, seconds = 0;
      for (const int holder : ties[t]) {
        begin = std::max(begin, ends[at(holder)]);
        seconds = std::max(seconds, tie_time(plan(at(holder)), static_cast<int>(t),
                                             *profiles_[at(holder)], network_));
      }
      for (const int holder : ties[t]) ends[at(holder)] = begin + seconds;
      now_ = std::max(now_, begin + seconds);
    }
  }

  /// All ranks wait for the norm of all gradients, then each updates what it has.
  void update(StepTime& step) {
    const double zeroed = step.optimizer;
    double norm = 0, updated = 0, gathered = 0;
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      const UpdateTime& time = updates_[s];
      norm = std::max(norm, time.norm);
      updated = std::max(updated, time.update);
      gathered = std::max(gathered, time.update + time.gather);
      if (at(step.critical_stage) == s) step.hidden_traffic += time.traffic - time.gather;
    }
    const double agreed = agreement_time(layout_.candidate.spec.mesh, *profiles_.front(), network_);
    step.optimizer += norm + agreed + updated;
    step.data_traffic += gathered - updated;
    now_ += zeroed + norm + agreed + gathered;
  }

  const PlannedLayout& layout_;
  const std::vector<const Profile*>& profiles_;
  const Network& network_;
  std::vector<StageTime> stages_;
  std::vector<UpdateTime> updates_;
  pipeline::Simulation simulation_;
  double now_ = 0;
};

/// The share of the sum of what all stages do for one micro-batch that a step takes at least, times
/// the stages over the micro-batches: 1 where stages may all be busy to the end.
double least_idle(const TrainingSpec& spec) {
  const double p = spec.mesh.size(Role::stage);
  if (spec.own_schedule || !spec.data_parallel_shares.empty() || p == 1 || spec.chunks > 1 ||
      (spec.schedule != ScheduleKind::gpipe && spec.schedule != ScheduleKind::one_f_one_b))
    return 1;
  // With one chunk a step takes T(0) + ... + T(s - 1) + m T(s) for each stage s: the first
  // micro-batch comes through those before s, and the last one goes back through them. A mean of
  // these, with weights that make all stages count equally, is this multiple of the sum of all T;
  // for equal stages it is less than (m + p - 1) / p, which unequal ones may fall below.
  const auto m = static_cast<double>(spec.micro_batches(0).count);
  return p / (m * (1 - std::pow(1 - 1 / m, p)));
}

}  // namespace

StepTime step_time(const PlannedLayout& layout, const Profile& profile, const Network& network) {
  return step_time(layout, std::vector<const Profile*>(layout.stages.size(), &profile), network);
}

StepTime step_time(const PlannedLayout& layout, const std::vector<const Profile*>& stages,
                   const Network& network) {
  require(stages.size() == layout.stages.size(), stages.size(), " profiles for ",
          layout.stages.size(), " stages: a profile for each");
  return Walk(layout, stages, network).time();
}

double least_step_time(const Candidate& candidate, double flops, const Profile& profile) {
  double rate = profile.efficiency * profile.peak(candidate.spec.compute);
  // product_time() extends a measurement to larger k by half_k.
  for (const MeasuredProduct& known : profile.products)
    if (known.dtype == candidate.spec.compute)
      rate =
          std::max(rate, known.flops_per_s * (1 + profile.half_k / static_cast<double>(known.k)));
  const double share = std::max(profile.attention_forward, profile.attention_backward);
  rate = std::max(rate, share * profile.peak(candidate.spec.compute));
  for (const MeasuredAttention& known : profile.attentions)
    if (known.dtype == candidate.spec.compute) rate = std::max(rate, known.flops_per_s);
  const double ideal = flops * static_cast<double>(candidate.spec.global_batch_size) /
                       (rate * candidate.spec.mesh.size());
  return ideal * least_idle(candidate.spec);
}

Index device_bytes(const PlannedLayout& layout, const Profile& profile) {
  Index most = 0;
  for (const PlannedRank& rank : layout.ranks)  // a CPU is its own host
    most = std::max(most, profile.is_cpu() ? rank.need.total() : rank.need.device());
  return most + profile.context_bytes + layout.communicators() * profile.communicator_bytes;
}

}  // namespace trireme::cost
