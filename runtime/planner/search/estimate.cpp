#include "runtime/planner/search/estimate.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "trireme/models/transformer.h"
#include "trireme/pipeline/schedule.h"

#include "runtime/planner/stage_time.h"

namespace trireme::planner {
namespace {

/// For what stages that differ, and schedules that are not as regular as the formula, can gain.
constexpr double certainty = 0.98;

std::unique_ptr<LayoutPlanner> planner_of(TransformerConfig config, Index layers,
                                          const DeviceTraits& device) {
  config.num_layers = layers;
  return std::make_unique<LayoutPlanner>(transformer_models(config), device);
}

/// The same model on a mesh of its tensor axis, and as many data ranks, for one micro-batch.
Candidate one_micro_batch(const TrainingTask& task, Layout layout, int data) {
  layout.pipeline = layout.chunks = 1;
  layout.schedule = ScheduleKind::one_f_one_b;
  layout.data = data;
  layout.sharded = data > 1;
  Candidate candidate = task.candidate(layout);
  candidate.spec.global_batch_size = data * layout.micro_batch;
  return candidate;
}

double compute_seconds(const StepTime& time) {
  return time.products + time.attention + time.memory_bound + time.tensor_traffic + time.host;
}

EndsAndBlock split(double one, double two) { return {one - (two - one), two - one}; }

EndsAndBlock split(Index one, Index two) {
  return split(static_cast<double>(one), static_cast<double>(two));
}

double bytes_of_state(const PlannedLayout& planned) {
  const MemoryNeed& need = planned.tightest().need;
  return static_cast<double>(need.parameters + need.gradients + need.optimizer);
}

/// They close a bucket, whatever is in it before them.
bool is_large(const FlatLayout& flat, const FlatParameter& parameter) {
  return parameter.range.count * size_bytes(DType::f32) >= flat.options().bucket_bytes;
}

double large_parameters(const PlannedLayout& planned) {
  const FlatLayout& flat = planned.stages.front()->flat;
  double count = 0;
  for (const FlatParameter& parameter : flat.parameters()) count += is_large(flat, parameter);
  return count;
}

double elements_of_large(const PlannedLayout& planned) {
  const FlatLayout& flat = planned.stages.front()->flat;
  Index count = 0;
  for (const FlatParameter& parameter : flat.parameters())
    if (is_large(flat, parameter)) count += parameter.range.count;
  return static_cast<double>(count);
}

}  // namespace

Estimator::Estimator(const TrainingTask& task, const Profile& profile, const Network& network)
    : task_(task),
      profile_(profile),
      network_(network),
      one_block_(planner_of(task.model(), 1, profile.device)),
      two_blocks_(planner_of(task.model(), 2, profile.device)) {}
Estimator::~Estimator() = default;

ModelCosts Estimator::measure(const Layout& layout) {
  const Candidate candidate = one_micro_batch(task_, layout, 1);
  const PlannedLayout one = one_block_->plan(candidate), two = two_blocks_->plan(candidate);
  const auto slot = [](const PlannedLayout& planned) {
    return planned.stages.front()->train.slot_stride(0);
  };
  ModelCosts costs;
  costs.seconds = split(compute_seconds(step_time(one, profile_, network_)),
                        compute_seconds(step_time(two, profile_, network_)));
  costs.slot = split(slot(one), slot(two));
  return costs;
}

const ModelCosts& Estimator::costs(const Layout& layout) {
  const Key key{layout.tensor, layout.micro_batch, layout.recompute, layout.sequence_parallel,
                layout.head_chunks};
  const auto known = costs_.find(key);
  if (known != costs_.end()) return known->second;
  if (layout.head_chunks == 1 || layout.recompute == RecomputeGranularity::none)
    return costs_.emplace(key, measure(layout)).first->second;
  // The head is that of the model without recomputation, the blocks are those of one piece.
  Layout blocks = layout, head = layout;
  blocks.head_chunks = 1;
  head.recompute = RecomputeGranularity::none;
  ModelCosts both = costs(blocks);
  const ModelCosts& of_head = costs(head);
  both.seconds.ends = of_head.seconds.ends;
  both.slot.ends = std::min(both.slot.ends, of_head.slot.ends);
  return costs_.emplace(key, both).first->second;
}

const std::vector<int>& Estimator::blocks(const Layout& layout) {
  const int stages = layout.pipeline * layout.chunks;
  const auto [known, is_new] = blocks_.try_emplace(stages);
  if (!is_new) return known->second;
  if (!graph_) {
    // Costs of blocks are in proportion for all micro-batches and tensor sizes.
    graph_ = std::make_unique<Graph>(0, 1, task_.options().compute());
    graph_->plan_for(profile_.device);
    loss_ = build_transformer_loss(*graph_, task_.model(), 1);
  }
  const StageCut cut = cut_stages(*graph_, {loss_}, stages);
  const std::vector<int> block_of = block_of_nodes(*graph_);
  std::vector<std::set<int>> found(static_cast<std::size_t>(stages));
  for (std::size_t node = 0; node < block_of.size(); ++node)
    found[static_cast<std::size_t>(cut.stage_of_node[node])].insert(block_of[node]);
  for (const std::set<int>& each : found) known->second.push_back(static_cast<int>(each.size()));
  return known->second;
}

std::vector<double> Estimator::stage_seconds(const Layout& layout, const PipelineShape& shape) {
  const EndsAndBlock& each = costs(layout).seconds;
  const std::vector<int>& counts = blocks(layout);
  std::vector<double> seconds(static_cast<std::size_t>(layout.pipeline), 0);
  for (int stage = 0; stage < shape.virtual_stages(); ++stage)
    seconds[static_cast<std::size_t>(shape.stage_of(stage))] +=
        counts[static_cast<std::size_t>(stage)] * each.block;
  // The embedding takes next to nothing.
  seconds[static_cast<std::size_t>(shape.last_stage())] += std::max(0.0, each.ends);
  return seconds;
}

double Estimator::seconds(const Layout& layout) {
  const TrainingSpec spec = task_.candidate(layout).spec;
  const PipelineShape shape = spec.pipeline(0);
  const auto micro_batches = static_cast<double>(spec.micro_batches(0).count);
  const std::vector<double> stages = stage_seconds(layout, shape);
  const double sum = std::accumulate(stages.begin(), stages.end(), 0.0);
  const double mean = sum / layout.pipeline;
  double least = micro_batches * mean / (1 - ideal_bubble(layout.schedule, shape));
  double before = 0;  // forward before the first micro-batch, and backward behind the last
  for (const double stage : stages) {
    least = std::max(least, micro_batches * stage + (layout.chunks == 1 ? before : 0));
    before += stage;
  }
  return certainty * least;
}

double Estimator::data_seconds(const Layout& layout, const Network& network) {
  if (layout.data == 1) return 0;
  using Kind = CollectiveWork::Kind;
  const TrainingSpec spec = task_.candidate(layout).spec;
  const Group data = group_of(spec.mesh, Axis::data);
  const StateCosts& parameters = state(layout.tensor);
  const auto traffic = [&](Kind kind, double number, double elements, DType dtype) {
    if (number <= 0) return 0.0;
    const double bytes = elements / number * static_cast<double>(size_bytes(dtype));
    return number * collective_time({kind, 1, bytes}, data, profile_, network);
  };
  double seconds = 0;
  if (layout.sharded) {
    // All stages wait for the one that has most, which is at least the mean.
    const auto layers = static_cast<double>(task_.model().num_layers);
    seconds += traffic(Kind::all_gather, parameters.large.of(layers) / layout.pipeline,
                       parameters.elements.of(layers) / layout.pipeline, spec.compute);
  }
  if (layout.schedule == ScheduleKind::one_f_one_b) {
    // The first stage ends last, with a backward that makes all its gradients.
    const int held = blocks(layout).front();
    const double sums =
        traffic(layout.sharded ? Kind::reduce_scatter : Kind::all_reduce,
                held * parameters.large.block, held * parameters.elements.block, DType::f32);
    seconds += std::max(0.0, sums - stage_seconds(layout, spec.pipeline(0)).front());
  }
  return certainty * seconds;
}

const StateCosts& Estimator::state(int tensor) {
  const auto [known, is_new] = state_.try_emplace(tensor);
  if (!is_new) return known->second;
  Layout plain;  // the state is that of any micro-batch
  plain.tensor = tensor;
  plain.recompute = RecomputeGranularity::full;
  const auto planned = [&](LayoutPlanner& planner, int data) {
    return planner.plan(one_micro_batch(task_, plain, data));
  };
  const PlannedLayout one = planned(*one_block_, 1), two = planned(*two_blocks_, 1);
  known->second.large = split(large_parameters(one), large_parameters(two));
  known->second.elements = split(elements_of_large(one), elements_of_large(two));
  const EndsAndBlock whole = split(bytes_of_state(one), bytes_of_state(two));
  const EndsAndBlock halved =
      split(bytes_of_state(planned(*one_block_, 2)), bytes_of_state(planned(*two_blocks_, 2)));
  // Of d data ranks each has kept + shared / d; two of them were asked.
  known->second.shared = {2 * (whole.ends - halved.ends), 2 * (whole.block - halved.block)};
  known->second.kept = {whole.ends - known->second.shared.ends,
                        whole.block - known->second.shared.block};
  return known->second;
}

double Estimator::state_of(const Layout& layout, double blocks, double ends) {
  const StateCosts& costs = state(layout.tensor);
  const double share = layout.sharded ? 1.0 / layout.data : 1.0;
  const auto of = [&](const EndsAndBlock& each) { return ends * each.ends + blocks * each.block; };
  // Padding of slices makes the shared part look a little smaller than it is.
  return certainty * (of(costs.kept) + share * of(costs.shared));
}

Index Estimator::fixed_bytes(const Layout& layout) const {
  const int axes = (layout.tensor > 1) + (layout.pipeline > 1) + (layout.data > 1);
  return profile_.context_bytes + axes * profile_.communicator_bytes;
}

Index Estimator::state_bytes(const Layout& layout) {
  const auto layers = static_cast<double>(task_.model().num_layers);
  const double mean = state_of(layout, layers, 1) / layout.pipeline;
  return static_cast<Index>(mean) + fixed_bytes(layout);
}

const std::vector<int>& Estimator::slots(const Layout& layout, PipelineShape shape) {
  // More micro-batches than these need no more slots, other than in gpipe.
  constexpr Index rounds = 4;
  if (layout.schedule != ScheduleKind::gpipe)
    shape.micro_batches = std::min<Index>(shape.micro_batches, rounds * layout.pipeline);
  const auto [known, is_new] =
      slots_.try_emplace({layout.schedule, shape.stages, shape.chunks, shape.micro_batches});
  if (is_new) known->second = make_program(layout.schedule, shape, 0).slots;
  return known->second;
}

Index Estimator::bytes(const Layout& layout) {
  const EndsAndBlock& slot = costs(layout).slot;
  const std::vector<int>& counts = blocks(layout);
  const PipelineShape shape = task_.candidate(layout).spec.pipeline(0);
  const std::vector<int>& slots_of = slots(layout, shape);
  const bool whole = layout.pipeline == 1;
  double held = 0, activations = 0;  // blocks of the first stage, bytes
  for (std::size_t chunk = 0; chunk < slots_of.size(); ++chunk) {
    const int stage = shape.virtual_stage(0, static_cast<int>(chunk));
    const int count = counts[static_cast<std::size_t>(stage)];
    held += count;
    activations += slots_of[chunk] * count * slot.block;
  }
  if (whole) activations += slots_of.front() * std::max(0.0, slot.ends);
  // The first stage has the embedding: half of the ends, or all of them where it is tied.
  const double first = state_of(layout, held, whole ? 1 : 0.5) + certainty * activations;
  return std::max(state_bytes(layout), static_cast<Index>(first) + fixed_bytes(layout));
}

}  // namespace trireme::planner
