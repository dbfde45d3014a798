#include "runtime/planner/layout.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "trireme/models/transformer.h"

#include "runtime/plan/plan_cache.h"

namespace trireme::planner {
namespace {

/// What models of candidates may differ in.
using ModelKey = std::tuple<Index, RecomputeGranularity, SequenceParallel, Index>;

ModelKey key_of(const Candidate& candidate) {
  return {candidate.spec.micro_batch_size, candidate.recompute, candidate.sequence_parallel,
          candidate.lm_head_chunks};
}

/// Ranks between these two of an axis need no more than they do.
std::set<int> ends(const MeshShape& mesh, Axis axis) { return {0, mesh.size(axis) - 1}; }

/// Those that run equally many micro-batches need equally much, but for the first and the last.
std::set<int> distinct_data_ranks(const TrainingSpec& spec) {
  std::set<int> ranks = ends(spec.mesh, Axis::data);
  std::set<Index> counts;
  if (!spec.data_parallel_shares.empty())
    for (int rank = 0; rank < spec.mesh.size(Axis::data); ++rank)
      if (counts.insert(spec.micro_batches(rank).count).second) ranks.insert(rank);
  return ranks;
}

int with_most_micro_batches(const TrainingSpec& spec) {
  int most = 0;
  if (!spec.data_parallel_shares.empty())
    for (int rank = 1; rank < spec.mesh.size(Axis::data); ++rank)
      if (spec.micro_batches(rank).count > spec.micro_batches(most).count) most = rank;
  return most;
}

}  // namespace

ModelOfCandidate transformer_models(const TransformerConfig& base) {
  return [base](const Candidate& candidate) {
    TransformerConfig config = base;
    config.recompute = candidate.recompute;
    config.sequence_parallel = candidate.sequence_parallel;
    config.lm_head_chunks = candidate.lm_head_chunks;
    TransformerConfig evaluation = config;
    evaluation.hidden_dropout = 0;
    const Index batch = candidate.spec.micro_batch_size;
    Model model([config, batch](Graph& g) { return build_transformer_loss(g, config, batch); });
    model.evaluation = [evaluation, batch](Graph& g) {
      return build_transformer_loss(g, evaluation, batch);
    };
    return model;
  };
}

const PlannedRank& PlannedLayout::tightest() const {
  return *std::max_element(
      ranks.begin(), ranks.end(),
      [](const PlannedRank& a, const PlannedRank& b) { return a.need.device() < b.need.device(); });
}

int PlannedLayout::communicators() const {
  const MeshShape& mesh = candidate.spec.mesh;
  int count = mesh.size() > 1 ? 1 : 0;  // of all ranks
  for (const MeshShape::Extent& axis : mesh.axes()) count += axis.size > 1 ? 1 : 0;
  return count + static_cast<int>(stages.front()->flat.ties().size());
}

struct LayoutPlanner::State {
  struct Planned {
    Model model;
    PlanCache cache;
  };
  ModelOfCandidate models;
  DeviceTraits device;
  CheckpointMemory checkpoint;
  std::map<ModelKey, Planned> planned;

  /// Plans of a large model take much memory, and a search asks for thousands.
  void forget_when_full() {
    constexpr std::size_t most_plans = 600;
    std::size_t plans = 0;
    for (const auto& [key, known] : planned) plans += known.cache.plans();
    if (plans > most_plans) planned.clear();
  }

  Planned& of(const Candidate& candidate) {
    const ModelKey key = key_of(candidate);
    const auto found = planned.find(key);
    if (found != planned.end()) return found->second;
    return planned.emplace(key, Planned{models(candidate), {}}).first->second;
  }
};

LayoutPlanner::LayoutPlanner(ModelOfCandidate models, const DeviceTraits& device,
                             CheckpointMemory checkpoint)
    : state_(std::make_unique<State>(State{std::move(models), device, std::move(checkpoint), {}})) {
}
LayoutPlanner::~LayoutPlanner() = default;

PlannedLayout LayoutPlanner::plan(const Candidate& candidate) {
  state_->forget_when_full();
  State::Planned& planned = state_->of(candidate);
  const MeshShape& mesh = candidate.spec.mesh;
  PlannedLayout layout;
  layout.candidate = candidate;
  layout.data_rank = with_most_micro_batches(candidate.spec);
  for (int stage = 0; stage < mesh.size(Axis::pipeline); ++stage)
    for (const int data : distinct_data_ranks(candidate.spec))
      for (const int tensor : ends(mesh, Axis::tensor)) {
        const int rank =
            mesh.rank_at({{Axis::pipeline, stage}, {Axis::data, data}, {Axis::tensor, tensor}});
        auto plan = std::make_shared<const PlannedTraining>(planned.model, candidate.spec, rank,
                                                            state_->device, &planned.cache);
        layout.ranks.push_back({rank, stage, rank_memory(*plan, state_->checkpoint)});
        if (data == layout.data_rank && tensor == 0) layout.stages.push_back(std::move(plan));
      }
  layout.programs = planned.cache.train_programs(candidate.spec, layout.shape());
  return layout;
}

double LayoutPlanner::flops_per_sample(DType compute) {
  Candidate one;
  one.spec.compute = compute;
  const State::Planned& planned = state_->of(one);
  const PlannedModel model = plan_training(planned.model.loss, {one.spec, 0, state_->device});
  double flops = 0;
  for (const StepWork& work : model.chunks.front().work()) {
    if (work.phase == StepWork::Phase::recompute) continue;
    for (const ProductWork& product : work.parts.products) flops += product.flops();
    for (const AttentionWork& attention : work.parts.attention) flops += attention.flops;
  }
  return flops;
}

}  // namespace trireme::planner
