#include "runtime/planner/search/pieces.h"

#include <algorithm>

#include "runtime/core/at.h"
#include "runtime/graph/constants.h"
#include "runtime/plan/plan_cache.h"
#include "runtime/planner/layout.h"
#include "runtime/planner/stage_time.h"

namespace trireme::planner {
namespace {

constexpr int count = 3;  // of blocks

CallCost cost_of(const CallTime& call) { return {call.parts.device(), call.parts.host}; }

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
Piece piece_of(const PlannedModel& model, const TrainingSpec& spec, const Profile& profile,
               const Network& network) {
  const Plan& plan = model.chunks.front();
  const ChunkTime time = chunk_time(plan, profile, group_of(spec.mesh, Axis::tensor), network);
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
  Candidate candidate = task_.candidate(layout);
  TrainingSpec& spec = candidate.spec;
  spec.chunks = 1;
  spec.schedule = ScheduleKind::one_f_one_b;
  spec.stage_speeds.clear();
  spec.data_parallel_shares.clear();
  spec.optimizer_shares.clear();
  spec.global_batch_size = spec.micro_batch_size;
  TransformerConfig config = task_.model();
  config.num_layers = count;
  const Model model = transformer_models(config)(candidate);
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

}  // namespace trireme::planner
