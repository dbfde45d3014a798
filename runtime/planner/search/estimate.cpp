#include "runtime/planner/search/estimate.h"

#include <algorithm>
#include <cmath>

#include "trireme/kernels/stream_bytes.h"
#include "trireme/models/transformer.h"
#include "trireme/pipeline/schedule.h"

#include "runtime/core/at.h"
#include "runtime/graph/plan/alike.h"
#include "runtime/optim/optimizer.h"
#include "runtime/pipeline/program.h"
#include "runtime/planner/search/least_step.h"

namespace trireme::planner {
namespace {

/// For sums in another order.
constexpr double rounding = 1 - 1e-9;
/// Of slots and scratch: where several blocks share them, values may overlap better than in one.
constexpr double packing = 0.98;

bool splits_backward(ScheduleKind kind) {
  return kind == ScheduleKind::zero_bubble || kind == ScheduleKind::zero_bubble_v;
}

/// Whether all blocks but the first and the last one are alike.
bool has_alike_blocks(const TrainingTask& task, const DeviceTraits& device) {
  Graph graph(0, 1, task.options().compute());
  graph.plan_for(device);
  const Value loss = build_transformer_loss(graph, task.model(), 1);
  const std::vector<int> kinds = block_kinds(graph, {loss}, PlanOptions::Mode::training);
  return kinds.size() < 4 || kinds[1] == kinds[kinds.size() - 2];
}

double seconds_of(const CallCost& call, bool queues) {
  return queues ? std::max(call.device, call.host) : call.device + call.host;
}

/// `blocks` blocks, with the ends of the model that the virtual stage has.
template <class Member>
auto sum_of(const Pieces& pieces, Member member, int blocks, bool first, bool last) {
  auto sum = pieces.middle.*member * (blocks - (first ? 1 : 0) - (last ? 1 : 0));
  if (first) sum += pieces.first.*member;
  if (last) sum += pieces.last.*member;
  return sum;
}

}  // namespace

Estimator::Estimator(const TrainingTask& task, const Profile& profile, const Network& network,
                     std::shared_ptr<ProgramCache> programs)
    : task_(task),
      profile_(profile),
      pieces_(task, profile, network),
      alike_(has_alike_blocks(task, profile.device)),
      programs_(std::move(programs)) {}

const std::vector<int>& Estimator::blocks(int stages, const Pieces& pieces) {
  const auto [known, is_new] =
      blocks_.try_emplace({stages, pieces.first.flops, pieces.middle.flops, pieces.last.flops});
  if (!is_new) return known->second;
  const std::size_t layers = at(task_.model().num_layers);
  std::vector<double> costs(layers, pieces.middle.flops);
  costs.at(0) = pieces.first.flops;
  costs.at(layers - 1) = pieces.last.flops;
  known->second.assign(at(stages), 0);
  for (const int stage : deal_blocks(costs, std::vector<double>(at(stages), 1.0)))
    ++known->second[at(stage)];
  return known->second;
}

std::vector<LeastStage> Estimator::stages(const Layout& layout, const PipelineShape& shape) {
  // No stage waits for gradients of the first one, which makes all at once.
  const Pieces& whole = pieces_.of(layout, false);
  const Pieces& split = splits_backward(layout.schedule) ? pieces_.of(layout, true) : whole;
  const std::vector<int>& counts = blocks(shape.virtual_stages(), whole);
  std::vector<LeastStage> all(at(shape.stages));
  for (int v = 0; v < shape.virtual_stages(); ++v) {
    const bool first = v == 0, last = v + 1 == shape.virtual_stages();
    const Pieces& pieces = first ? whole : split;
    const int count = counts[at(v)];
    const auto of = [&](auto member) { return sum_of(pieces, member, count, first, last); };
    const auto call = [&](auto member) { return seconds_of(of(member), profile_.queues); };
    LeastStage& stage = all[at(shape.stage_of(v))];
    stage.chunks.push_back(
        {call(&Piece::forward), call(&Piece::backward), call(&Piece::parameter_backward)});
    stage.slots.push_back(of(&Piece::slot));
    stage.scratch = std::max({stage.scratch, first ? pieces.first.scratch : pieces.middle.scratch,
                              last ? pieces.last.scratch : 0});
    stage.add(pieces.middle.parameters, count - (first ? 1 : 0) - (last ? 1 : 0));
    if (first) stage.add(pieces.first.parameters, 1);
    if (last) stage.add(pieces.last.parameters, 1);
  }
  if (shape.last_stage() == 0) {  // what the first and the last block share is there once
    PieceParameters& parameters = all.front().parameters;
    parameters.elements -= parameters.tied / 2;
    parameters.tied = 0;
  }
  return all;
}

Estimator::Known& Estimator::known(const Layout& layout, const Network& network) {
  constexpr std::size_t most = 50'000;  // searches of ever more nodes ask for ever more layouts
  if (known_.size() > most) known_.clear();
  return known_[{layout, network.port.bytes_per_s}];
}

Estimator::Least Estimator::least(const Layout& layout, const TrainingSpec& spec,
                                  const Network& network) {
  std::optional<Least>& least = known(layout, network).least;
  if (!least) least = find_least(layout, spec, network);
  return *least;
}

double Estimator::simulated(const Layout& layout, const TrainingSpec& spec,
                            const Network& network) {
  std::optional<double>& seconds = known(layout, network).simulated;
  if (!seconds) seconds = find_simulated(layout, spec, network);
  return *seconds;
}

Estimator::Least Estimator::find_least(const Layout& layout, const TrainingSpec& spec,
                                       const Network& network) {
  if (!is_known(spec)) return {0, state_bytes(layout, spec)};
  const std::vector<LeastStage> all = stages(layout, spec.pipeline(0));
  const double message = pieces_.of(layout, false).message;
  return {rounding * least_step(all, message, spec, profile_, network), bytes(layout, spec, all)};
}

bool Estimator::is_known(const TrainingSpec& spec) const {
  return alike_ && spec.stage_speeds.empty() && spec.data_parallel_shares.empty() &&
         spec.optimizer_shares.empty();
}

double Estimator::find_simulated(const Layout& layout, const TrainingSpec& spec,
                                 const Network& network) {
  if (!is_known(spec)) return 0;
  const PipelineShape shape = spec.pipeline(0);
  return rounding * least_step(stages(layout, shape), pieces_.of(layout, false).message, spec,
                               profile_, network, programs_->train(spec, shape).get());
}

double Estimator::state_of(double elements, const TrainingSpec& spec) const {
  const double moments = static_cast<double>(Optimizer::state_names(spec.optimizer).size());
  const double copy =
      spec.compute == DType::f32 ? 0 : static_cast<double>(size_bytes(spec.compute));
  const double share = spec.update == Update::sharded ? 1.0 / spec.mesh.size(Axis::data) : 1;
  // FlatLayout: with a compute copy a rank keeps the masters that it updates.
  const double masters = copy > 0 ? share : 1;
  return elements * (size_bytes(DType::f32) * (1 + masters + share * moments) + copy);
}

Index Estimator::fixed_bytes(const Layout& layout) const {
  const int axes = (layout.tensor > 1) + (layout.pipeline > 1) + (layout.data > 1);
  const int communicators = axes + (layout.ranks() > 1 ? 1 : 0);
  return gemm_stream_bytes(profile_.device) + profile_.context_bytes +
         communicators * profile_.communicator_bytes;
}

double Estimator::elements(const Layout& layout) {
  const auto [known, is_new] = elements_.try_emplace(layout.tensor, 0);
  if (!is_new) return known->second;
  Layout plain;  // parameters are those of any micro-batch
  plain.tensor = layout.tensor;
  plain.recompute = RecomputeGranularity::full;
  const Pieces& pieces = pieces_.of(plain, false);
  const auto of = [](const Piece& piece) { return piece.parameters.elements; };
  // What the first and the last block share may be there once.
  return known->second = of(pieces.first) + of(pieces.last) - pieces.last.parameters.tied +
                         static_cast<double>(task_.model().num_layers - 2) * of(pieces.middle);
}

Index Estimator::state_bytes(const Layout& layout, const TrainingSpec& spec) {
  const double mean = alike_ && spec.stage_speeds.empty() ? elements(layout) / layout.pipeline : 0;
  return static_cast<Index>(state_of(mean, spec)) + fixed_bytes(layout);
}

const std::vector<int>& Estimator::slots(const Layout& layout, const PipelineShape& shape,
                                         int stage) {
  const auto [known, is_new] =
      slots_.try_emplace({layout.schedule, shape.stages, shape.chunks, shape.micro_batches, stage});
  if (is_new) known->second = slots_of(work_order(layout.schedule, shape, stage), shape.chunks);
  return known->second;
}

Index Estimator::bytes(const Layout& layout, const TrainingSpec& spec,
                       const std::vector<LeastStage>& stages) {
  const PipelineShape shape = spec.pipeline(0);
  double most = 0;
  // The first one has most slots in most schedules, the last one the head.
  for (const int stage : {0, shape.stages - 1}) {
    const LeastStage& each = stages[at(stage)];
    const std::vector<int>& counts = slots(layout, shape, stage);
    double activations = each.scratch;
    for (std::size_t chunk = 0; chunk < counts.size(); ++chunk)
      activations += counts[chunk] * each.slots[chunk];
    most = std::max(most, state_of(each.parameters.elements, spec) + packing * activations);
  }
  const double constants = pieces_.of(layout, false).constants;
  return std::max(state_bytes(layout, spec),
                  static_cast<Index>(most + constants) + fixed_bytes(layout));
}

}  // namespace trireme::planner
