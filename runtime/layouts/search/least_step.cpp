#include "runtime/layouts/search/least_step.h"

#include <algorithm>

#include "runtime/core/at.h"
#include "runtime/cost/planned_layout.h"
#include "runtime/cost/reductions.h"
#include "runtime/cost/stage_time.h"
#include "runtime/graph/constants.h"
#include "runtime/optim/optimizer.h"
#include "runtime/pipeline/simulate.h"
#include "runtime/rank_plan/plan_cache.h"

namespace trireme::layouts {
namespace {

using Kind = CollectiveWork::Kind;

/// Of a stage, in the step.
struct Times {
  double last_begin = 0;  // of the backward of the last micro-batch, of whichever chunk is first
  double end = 0;
};

class Bound {
 public:
  Bound(const std::vector<LeastStage>& stages, double message, const TrainingSpec& spec,
        const cost::Profile& profile, const cost::Network& network)
      : stages_(stages),
        message_(message),
        spec_(spec),
        profile_(profile),
        network_(network),
        data_(cost::group_of(spec.mesh, Role::batch, 0)) {}

  double seconds(const std::vector<StageProgram>* programs) const {
    const std::vector<Times> times = programs == nullptr ? schedule() : simulated(*programs);
    double computed = 0, zeroed = 0, norm = 0, updated = 0;
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      computed = std::max(computed, with_sums(s, times[s]));
      zeroed = std::max(
          zeroed, 4 * stages_[s].parameters.elements / profile_.loop_rate("zero_gradients", false));
      norm = std::max(
          norm, 4 * owned(s) / profile_.loop_rate("gradient_norm", false) + profile_.op_seconds);
      updated = std::max(updated, update(s));
    }
    return computed + zeroed + norm + cost::agreement_time(spec_.mesh, profile_, network_) +
           updated;
  }

 private:
  bool sharded() const { return spec_.update == Update::sharded; }
  double share() const { return sharded() ? 1.0 / data_.size : 1; }

  /// From a stage to the next one.
  double hop(int stage) const {
    return cost::hop_time(message_, stage, stage + 1, spec_.mesh, profile_, network_);
  }

  /// A stage begins once the first micro-batch has come to it, never does two works at once, and
  /// ends before the stages that wait for its last gradient of inputs.
  std::vector<Times> schedule() const {
    const bool halves = spec_.schedule == ScheduleKind::zero_bubble;
    const bool up_and_down = spec_.schedule == ScheduleKind::zero_bubble_v;
    const auto count = static_cast<double>(spec_.micro_batches(0).count);
    std::vector<Times> times(stages_.size());
    double begin = 0;
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      const LeastStage& stage = stages_[s];
      double all = 0, forwards = 0, backwards = 0;
      for (const LeastStage::Chunk& chunk : stage.chunks) {
        all += chunk.seconds();
        forwards += chunk.forward;
        backwards += chunk.backward;
      }
      times[s].end = begin + count * all;
      // Before the first backward of the last micro-batch: all forwards, and the backwards of
      // the micro-batches before it, but for those of the same group in other chunks. All
      // micro-batches of gpipe are one group.
      const auto ring = static_cast<double>(stages_.size());
      const bool one_group = count < 2 * ring || spec_.schedule == ScheduleKind::gpipe;
      const double grouped = one_group ? count : ring;
      times[s].last_begin =
          begin + count * forwards + (up_and_down || halves ? 0 : (count - grouped) * backwards);
      if (s + 1 < stages_.size()) begin += stage.chunks.front().forward + hop(static_cast<int>(s));
    }
    if (up_and_down) return times;
    // The last work but for gradients of weights is the last gradient of inputs of chunk 0.
    double next = 0;  // when the stage behind is done with that
    for (std::size_t s = stages_.size(); s-- > 0;) {
      const LeastStage::Chunk& chunk = stages_[s].chunks.front();
      const double weights = count * chunk.parameter_backward;
      double done = times[s].end - (halves ? weights : 0);
      if (s + 1 < stages_.size())
        done = std::max(done, next + hop(static_cast<int>(s)) + chunk.backward);
      if (stages_[s].chunks.size() == 1)
        times[s].last_begin = std::max(times[s].last_begin, done - chunk.backward);
      times[s].end = std::max(times[s].end, done + (halves ? chunk.parameter_backward : 0));
      next = done;
    }
    return times;
  }

  /// All times grow with those of the works, which are bounds themselves.
  std::vector<Times> simulated(const std::vector<StageProgram>& programs) const {
    const PipelineShape& shape = programs.front().shape;
    std::vector<std::vector<pipeline::Costs>> costs;
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      costs.emplace_back();
      for (std::size_t c = 0; c < stages_[s].chunks.size(); ++c) {
        const LeastStage::Chunk& chunk = stages_[s].chunks[c];
        costs.back().push_back({chunk.forward, chunk.backward, chunk.parameter_backward,
                                transfer(shape, static_cast<int>(s), static_cast<int>(c))});
      }
    }
    const pipeline::Simulation simulation = pipeline::simulate(programs, costs);
    std::vector<Times> times;
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      Times& stage = times.emplace_back();
      stage.end = stage.last_begin = simulation.ends[s];
      for (const pipeline::TimedSpan& span : simulation.stages[s])
        if (span.work.micro_batch == shape.micro_batches - 1 && span.work.kind != WorkKind::forward)
          stage.last_begin = std::min(stage.last_begin, span.begin);
    }
    return times;
  }

  /// To and from the neighbours of a virtual stage.
  pipeline::TransferCosts transfer(const PipelineShape& shape, int stage, int chunk) const {
    const int v = shape.virtual_stage(stage, chunk);
    const auto to = [&](int other) {
      if (other < 0 || other >= shape.virtual_stages()) return 0.0;
      return cost::hop_time(message_, stage, shape.stage_of(other), spec_.mesh, profile_, network_);
    };
    pipeline::TransferCosts costs;
    costs.values_in = costs.gradients_out = to(v - 1);
    costs.values_out = costs.gradients_in = to(v + 1);
    return costs;
  }

  /// Of collectives over data, one for each large parameter at least.
  double traffic(std::size_t s, Kind kind, double elements, DType dtype) const {
    if (data_.size == 1 || elements <= 0) return 0;
    const double buckets = std::max(1.0, stages_[s].parameters.large);
    const double bytes = elements * static_cast<double>(size_bytes(dtype)) / buckets;
    cost::Group data = data_;
    data.first = static_cast<int>(s) * data.ranks;
    return buckets * cost::collective_time({kind, 1, bytes}, data, profile_, network_);
  }

  /// No bucket is ready before the last micro-batch. What is summed beside work slows it.
  double with_sums(std::size_t s, const Times& times) const {
    const PieceParameters& all = stages_[s].parameters;
    const double summed = traffic(s, sharded() ? Kind::reduce_scatter : Kind::all_reduce,
                                  all.elements - all.tied, DType::f32);
    const double end = std::max(times.end, times.last_begin + summed);
    const double slowed = std::min(profile_.contention, 1.0);
    return (1 - slowed) * end + slowed * (summed + times.end);
  }

  /// Elements in the norm: of each data rank its slice, sharded or not. A tied parameter may be in
  /// that of another stage.
  double owned(std::size_t s) const {
    return (stages_[s].parameters.elements - stages_[s].parameters.tied) / data_.size;
  }

  /// Until a stage has updated, and gathered, what it holds.
  double update(std::size_t s) const {
    const PieceParameters& all = stages_[s].parameters;
    const double updated = update_cost(spec_.optimizer, spec_.compute).bytes * share() *
                               all.elements / profile_.loop_rate("update", false) +
                           profile_.op_seconds;
    if (!sharded()) return updated;
    return std::max(updated, traffic(s, Kind::all_gather, all.elements - all.tied, spec_.compute));
  }

  const std::vector<LeastStage>& stages_;
  const double message_;
  const TrainingSpec& spec_;
  const cost::Profile& profile_;
  const cost::Network& network_;
  const cost::Group data_;  // of the first stage
};

}  // namespace

void LeastStage::add(const PieceParameters& more, double times) {
  parameters.elements += times * more.elements;
  parameters.tied += times * more.tied;
  parameters.large += times * more.large;
}

double least_step(const std::vector<LeastStage>& stages, double message, const TrainingSpec& spec,
                  const cost::Profile& profile, const cost::Network& network,
                  const std::vector<StageProgram>* programs) {
  return Bound(stages, message, spec, profile, network).seconds(programs);
}

namespace {

constexpr int count = 3;  // of blocks

CallCost cost_of(const cost::CallTime& call) { return {call.parts.device(), call.parts.host}; }

PieceParameters parameters_of(const PlannedModel& model, Index bucket_size) {
  PieceParameters all;
  for (const int id : model.chunks.front().parameters()) {
    const auto elements = static_cast<double>(model.graph->parameters()[at(id)].spec.shape.count());
    const bool tied = model.cut.holders[at(id)].size() > 1;
    all.elements += elements;
    if (tied)
      all.tied += elements;
    else if (elements >= static_cast<double>(bucket_size))
      ++all.large;  // closes its bucket, whatever is in it before
  }
  return all;
}

/// Of one stage.
Piece piece_of(const PlannedModel& model, const TrainingSpec& spec, const cost::Profile& profile,
               const cost::Network& network) {
  const Plan& plan = model.chunks.front();
  const cost::ChunkTime time =
      cost::chunk_time(plan, profile, cost::group_of(spec.mesh, Role::tensor), network);
  Piece piece;
  piece.forward = cost_of(time.forward);
  piece.backward = cost_of(time.backward);
  piece.parameter_backward = cost_of(time.parameter_backward);
  piece.slot = static_cast<double>(plan.bytes().slot);
  piece.scratch = static_cast<double>(plan.bytes().scratch);
  piece.flops = model.cut.cost[at(plan.stage())];
  piece.parameters = parameters_of(model, spec.bucket_size);
  return piece;
}

/// A block inside a stage may cost less than as a stage of its own, by what happens to the values
/// that stages exchange. `whole`: of all three as one stage.
void leave_out_exchange(Pieces& pieces, const Piece& whole) {
  for (CallCost Piece::*call : {&Piece::forward, &Piece::backward, &Piece::parameter_backward})
    for (double CallCost::*part : {&CallCost::device, &CallCost::host}) {
      const double sum =
          pieces.first.*call.*part + pieces.middle.*call.*part + pieces.last.*call.*part;
      const double more = std::max(0.0, sum - whole.*call.*part);
      for (Piece* piece : {&pieces.first, &pieces.middle, &pieces.last})
        piece->*call.*part = std::max(0.0, piece->*call.*part - more);
    }
  const double more =
      std::max(0.0, pieces.first.slot + pieces.middle.slot + pieces.last.slot - whole.slot);
  for (Piece* piece : {&pieces.first, &pieces.middle, &pieces.last})
    piece->slot = std::max(0.0, piece->slot - more);
}

/// The head of one, the blocks of the other.
Pieces with_head_of(Pieces blocks, const Pieces& head, const Pieces& plain) {
  for (CallCost Piece::*call : {&Piece::forward, &Piece::backward, &Piece::parameter_backward})
    for (double CallCost::*part : {&CallCost::device, &CallCost::host})
      blocks.last.*call.*part += head.last.*call.*part - plain.last.*call.*part;
  blocks.last.slot = std::min(blocks.last.slot, head.last.slot);
  blocks.last.scratch = std::min(blocks.last.scratch, head.last.scratch);
  return blocks;
}

}  // namespace

CallCost& CallCost::operator+=(const CallCost& other) {
  device += other.device;
  host += other.host;
  return *this;
}

CallCost CallCost::operator*(double times) const { return {device * times, host * times}; }

PieceMaker::Key PieceMaker::key_of(const Layout& layout, bool split) {
  return {layout.tensor,      layout.micro_batch,
          layout.recompute,   layout.sequence_parallel,
          layout.head_chunks, split};
}

const PieceMaker::Measured& PieceMaker::measured(const Layout& layout, bool split) {
  const Key key = key_of(layout, split);
  const auto found = measured_.find(key);
  if (found != measured_.end()) return found->second;
  return measured_.emplace(key, measure(layout, split)).first->second;
}

PieceMaker::Measured PieceMaker::measure(const Layout& layout, bool split) {
  cost::Candidate candidate = task_.candidate(layout);
  TrainingSpec& spec = candidate.spec;
  spec.chunks = 1;
  spec.schedule = ScheduleKind::one_f_one_b;
  spec.stage_speeds.clear();
  spec.data_parallel_shares.clear();
  spec.optimizer_shares.clear();
  spec.global_batch_size = spec.micro_batch_size;
  TransformerConfig config = task_.model();
  config.num_layers = count;
  const Model model = cost::transformer_models(config)(candidate);
  const std::vector<PlanOptions::Backward> backward = {split ? PlanOptions::Backward::split
                                                             : PlanOptions::Backward::whole};
  PlanCache cache;
  const auto plan = [&](int stages, int stage) {
    spec.mesh = MeshShape(1, stages, layout.tensor);
    return plan_training(model.loss, {spec, stage * layout.tensor, profile_.device, &cache},
                         backward);
  };
  const auto piece = [&](const PlannedModel& planned) {
    return piece_of(planned, spec, profile_, network_);
  };
  Measured all;
  if (layout.head_chunks == 1) {
    const PlannedModel first = plan(count, 0);
    all.pieces.first = piece(first);
    all.pieces.middle = piece(plan(count, 1));
    all.pieces.message = static_cast<double>(first.chunks.front().send_values().bytes);
    all.pieces.constants = static_cast<double>(constant_bytes(*first.graph));
  } else {  // only the head is another
    Layout plain = layout;
    plain.head_chunks = 1;
    all = measured(plain, split);
  }
  all.pieces.last = piece(plan(count, 2));
  all.whole = piece(plan(1, 0));
  return all;
}

const Pieces& PieceMaker::of(const Layout& layout, bool split) {
  const Key key = key_of(layout, split);
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  if (layout.head_chunks == 1 || layout.recompute == RecomputeGranularity::none) {
    const Measured& all = measured(layout, split);
    Pieces pieces = all.pieces;
    leave_out_exchange(pieces, all.whole);
    return known_.emplace(key, pieces).first->second;
  }
  // The head is that of the model without recomputation, the blocks are those of one piece.
  Layout blocks = layout, head = layout, plain = layout;
  blocks.head_chunks = plain.head_chunks = 1;
  head.recompute = plain.recompute = RecomputeGranularity::none;
  const Pieces both = with_head_of(of(blocks, split), of(head, split), of(plain, split));
  return known_.emplace(key, both).first->second;
}

}  // namespace trireme::layouts
