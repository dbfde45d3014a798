#include "runtime/cost/planned_layout.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "trireme/models/transformer.h"

#include "runtime/core/at.h"
#include "runtime/optim/optimizer.h"
#include "runtime/rank_plan/plan_cache.h"

namespace trireme::cost {
namespace {

/// What models of candidates may differ in.
using ModelKey = std::tuple<Index, RecomputeGranularity, SequenceParallel, Index>;

ModelKey key_of(const Candidate& candidate) {
  return {candidate.spec.micro_batch_size, candidate.recompute, candidate.sequence_parallel,
          candidate.lm_head_chunks};
}

/// Ranks between these two of an axis need no more than they do.
std::set<int> ends(const MeshShape& mesh, Role role) { return {0, mesh.size(role) - 1}; }

/// All that may need most memory, and the one whose step is timed.
std::set<int> data_ranks_of(const PlannedLayout& layout) {
  std::set<int> ranks = distinct_data_ranks(layout.candidate.spec);
  ranks.insert(layout.data_rank);
  return ranks;
}

/// The data rank that runs most micro-batches, and of these that which updates most.
int slowest_data_rank(const TrainingSpec& spec) {
  const auto work = [&](int rank) {
    return std::pair(spec.micro_batches(rank).count,
                     spec.optimizer_shares.empty() ? 1 : spec.optimizer_shares.at(at(rank)));
  };
  const std::set<int> ranks = distinct_data_ranks(spec);
  return *std::max_element(ranks.begin(), ranks.end(),
                           [&](int a, int b) { return work(a) < work(b); });
}

/// Parameters and state of the optimizer: checkpoints have nothing else of weight.
Index saved_bytes(const PlannedTraining& plan) {
  Index bytes = 0;
  const auto add = [&](FlatBuffer buffer, Index times) {
    for (const FlatExtent& each : plan.flat.written_extents(buffer))
      for (const Box& box : each.extent.boxes)
        bytes += times * box.count() * size_bytes(each.extent.dtype);
  };
  add(FlatBuffer::masters, 1);
  add(FlatBuffer::state, static_cast<Index>(Optimizer::state_names(plan.spec.optimizer).size()));
  return bytes;
}

}  // namespace

ModelOfCandidate transformer_models(const TransformerConfig& base) {
  return [base](const Candidate& candidate) {
    TransformerConfig config = base;
    config.recompute = candidate.recompute;
    config.sequence_parallel = candidate.sequence_parallel;
    config.lm_head_chunks = candidate.lm_head_chunks;
    const Index batch = candidate.spec.micro_batch_size;
    Model model([config, batch](Graph& g) { return build_transformer_loss(g, config, batch); });
    if (config.hidden_dropout == 0) return model;
    TransformerConfig evaluation = config;
    evaluation.hidden_dropout = 0;
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

namespace {

/// What is planned of one model.
struct PlannedRanks {
  Model model;
  PlanCache cache;

  /// Per pipeline rank: the first one that is planned alike. `first`: of pipeline rank 0.
  std::vector<int> alike(const PlannedTraining& first) {
    const PipelineShape shape = first.train.program().shape;
    const auto programs = cache.programs().train(first.spec, shape);
    const bool splits = splits_backward(first.spec);
    std::map<std::vector<int>, int> ranks;
    std::vector<int> like;
    for (int stage = 0; stage < shape.stages; ++stage) {
      std::vector<int> key;
      for (int chunk = 0; chunk < shape.chunks; ++chunk) {
        const int v = shape.virtual_stage(stage, chunk);
        key.push_back(first.train.model().kinds[at(v)]);
        key.push_back(first.evaluate.model().kinds[at(v)]);
        if (splits) key.push_back(programs->at(at(stage)).splits_backward(chunk) ? 1 : 0);
      }
      like.push_back(shares_plans(first.spec) ? ranks.try_emplace(key, stage).first->second
                                              : stage);
    }
    return like;
  }

  /// Passes beside training and evaluation are not compared, nor data ranks that split otherwise.
  bool shares_plans(const TrainingSpec& spec) const {
    return !model.logits && !model.result &&
           (spec.data_parallel_shares.empty() || !splits_backward(spec));
  }

  /// Whether some stage may.
  static bool splits_backward(const TrainingSpec& spec) {
    return spec.own_schedule || spec.schedule == ScheduleKind::zero_bubble ||
           spec.schedule == ScheduleKind::zero_bubble_v;
  }

  /// Of pipeline rank `stage`, which is planned as `like` is, but may keep other micro-batches.
  MemoryNeed need(const PlannedTraining& like, int stage, const CheckpointMemory& checkpoint) {
    MemoryNeed need = rank_memory(like, checkpoint);
    if (stage == like.coordinate(Role::stage)) return need;
    const PipelineShape shape = like.train.program().shape;
    ProgramCache& programs = cache.programs();
    need.activations = like.train.bytes_with(programs.train(like.spec, shape)->at(at(stage)));
    if (!like.evaluate.model().chunks.empty())
      need.activations = std::max(need.activations,
                                  like.evaluate.bytes_with(programs.forward(shape)->at(at(stage))));
    return need;
  }

  int slots(const PlannedTraining& like, int stage) {
    const auto programs = cache.programs().train(like.spec, like.train.program().shape);
    const std::vector<int>& slots = programs->at(at(stage)).slots;
    return std::accumulate(slots.begin(), slots.end(), 0);
  }
};

}  // namespace

struct LayoutPlanner::State {
  ModelOfCandidate models;
  DeviceTraits device;
  CheckpointMemory checkpoint;
  std::shared_ptr<ProgramCache> programs;
  std::map<ModelKey, PlannedRanks> planned;

  /// Plans of a large model take much memory, and a search asks for thousands.
  void forget_when_full() {
    constexpr std::size_t most_plans = 2000;
    std::size_t plans = 0;
    for (const auto& [key, known] : planned) plans += known.cache.plans();
    if (plans > most_plans) planned.clear();
  }

  PlannedRanks& of(const Candidate& candidate) {
    const ModelKey key = key_of(candidate);
    const auto found = planned.find(key);
    if (found != planned.end()) return found->second;
    return planned
        .emplace(key,
                 PlannedRanks{models(candidate), PlanCache(PlanCache::Stages::alike, programs)})
        .first->second;
  }
};

LayoutPlanner::LayoutPlanner(ModelOfCandidate models, const DeviceTraits& device,
                             CheckpointMemory checkpoint, std::shared_ptr<ProgramCache> programs)
    : state_(std::make_unique<State>(
          State{std::move(models), device, std::move(checkpoint), std::move(programs), {}})) {}
LayoutPlanner::~LayoutPlanner() = default;

PlannedLayout LayoutPlanner::plan(const Candidate& candidate, Ranks ranks) {
  state_->forget_when_full();
  PlannedRanks& planned = state_->of(candidate);
  const TrainingSpec& spec = candidate.spec;
  PlannedLayout layout;
  layout.candidate = candidate;
  layout.data_rank = candidate.data_rank.value_or(slowest_data_rank(spec));
  const bool all = ranks == Ranks::all;
  const std::set<int> data_ranks = all ? data_ranks_of(layout) : std::set{layout.data_rank},
                      tensor_ranks = all ? ends(spec.mesh, Role::tensor) : std::set{0};
  const auto passes = all ? PlannedTraining::Passes::all : PlannedTraining::Passes::train;
  // By pipeline, data and tensor rank.
  std::map<std::tuple<int, int, int>, std::shared_ptr<const PlannedTraining>> plans;
  std::vector<int> alike;  // known once the first rank is planned
  for (int stage = 0; stage < spec.mesh.size(Role::stage); ++stage)
    for (const int data : data_ranks)
      for (const int tensor : tensor_ranks) {
        const auto rank_of = [&](int pipeline) {
          return spec.mesh.rank_at(
              {{Role::stage, pipeline}, {Role::batch, data}, {Role::tensor, tensor}});
        };
        const int like = alike.empty() ? 0 : alike.at(at(stage));
        auto& plan = plans[{like, data, tensor}];
        if (!plan)
          plan = std::make_shared<const PlannedTraining>(planned.model, spec, rank_of(like),
                                                         state_->device, &planned.cache, passes);
        if (alike.empty()) alike = planned.alike(*plan);
        layout.ranks.push_back(
            {rank_of(stage), stage, planned.need(*plan, stage, state_->checkpoint),
             planned.slots(*plan, stage), all ? std::optional(saved_bytes(*plan)) : std::nullopt});
        if (data == layout.data_rank && tensor == 0) layout.stages.push_back(plan);
      }
  layout.programs = planned.cache.programs().train(spec, layout.shape());
  return layout;
}

double LayoutPlanner::flops_per_sample(DType compute) {
  Candidate one;
  one.spec.compute = compute;
  const PlannedRanks& planned = state_->of(one);
  const PlannedModel model = plan_training(planned.model.loss, {one.spec, 0, state_->device});
  double flops = 0;
  for (const StepWork& work : model.chunks.front().work()) {
    if (work.phase == StepWork::Phase::recompute) continue;
    for (const ProductWork& product : work.parts.products) flops += product.flops();
    for (const AttentionWork& attention : work.parts.attention) flops += attention.flops;
  }
  return flops;
}

}  // namespace trireme::cost
