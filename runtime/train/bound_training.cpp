#include "runtime/train/bound_training.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "trireme/comm/agree.h"
#include "trireme/core/bf16.h"
#include "trireme/kernels/device.h"

#include "runtime/core/seconds_since.h"
#include "runtime/job/device_choice.h"
#include "runtime/train/pass.h"

namespace trireme::train {
namespace {

// Before the first step ops do their one-time work, such as choosing algorithms by timing.

struct DeviceMemory {
  std::byte* data;
  Index bytes;
};

using Clock = std::chrono::steady_clock;

constexpr double seconds_between_lines = 5;

/// Whether this rank is counted: one rank per stage, because tensor and data ranks have the same
/// products.
bool counts(const Mesh& mesh) { return mesh.coordinate(Role::layers) == 0; }

bool times_products(const Context& context) {
  return context.device().kind() == DeviceKind::cuda && !context.options().gemm_cache.empty();
}

/// Collective. The notes of all ranks, without duplicates.
void log_notes(const Context& context, const Preparation& mine) {
  std::vector<std::string> said;
  for (const std::vector<std::string>& notes : gather_lists(context.host(), mine.notes))
    for (const std::string& note : notes)
      if (std::find(said.begin(), said.end(), note) == said.end()) said.push_back(note);
  for (const std::string& note : said) context.log().info("matrix products: " + note);
}

/// Collective. `seconds`: duration on this rank.
void log_choices(const Context& context, const Preparation& mine, double seconds) {
  const bool counted = counts(context.mesh());
  Index sums[2] = {counted ? mine.timed : 0, counted ? mine.stored : 0};
  context.host().all_reduce({sums, 2, DType::i64}, Reduction::sum);
  const std::string& cache = context.options().gemm_cache;
  if (context.device().kind() != DeviceKind::cuda) return;
  context.log().info(
      cache.empty()
          ? fmt::format(
                "matrix products: cuBLASLt's first recommendations, each run once in {:.1f} "
                "s; --gemm-cache DIR takes the fastest",
                seconds)
          : fmt::format("matrix products: {} chosen by timing, {} as stored in {}; {:.1f} s",
                        sums[0], sums[1], cache, seconds));
}

/// Collective: all ranks at the same time, in the order of their plans, with no collective in
/// flight. `memory`: of the passes, which timing may fill: its content is then undefined.
void prepare_passes(const Context& context, const std::vector<Pass*>& passes,
                    const std::vector<DeviceMemory>& memory) {
  Index calls = 0, done = 0;
  for (const Pass* pass : passes) calls += pass->preparations();

  Preparation preparation;
  if (times_products(context))  // on the memory as it is
    for (const DeviceMemory& part : memory)
      fill_for_timing(context.stream(), part.data, part.bytes);
  context.stream().synchronize();
  context.host().world().barrier();  // no collective is in flight while others time
  const Clock::time_point start = Clock::now();
  double next_line = seconds_between_lines;
  const auto after_each = [&] {
    ++done;
    if (seconds_since(start) < next_line) return;
    next_line += seconds_between_lines;
    context.log().info(
        fmt::format("matrix products: {} of {} calls prepared, {} chosen by timing, {:.0f} s", done,
                    calls, preparation.timed, seconds_since(start)));
  };
  agree_or_stop(context.host(), [&] {
    for (Pass* pass : passes) pass->prepare(preparation, after_each);
  });
  log_notes(context, preparation);
  log_choices(context, preparation, seconds_since(start));
}

Arena allocate(const Context& context, const MemoryNeed& need) {
  const std::string planned = context.mesh().memory_description();
  Arena arena(need, context.mesh());
  if (context.mesh().memory_description() != planned)
    context.log().info("collectives: " + context.mesh().memory_description());
  return arena;
}

/// Passes share activations, and each has its constants.
PassMemory memory_of(const PlannedPass& pass, const PlannedTraining& plan, const Arena& arena) {
  std::byte* constants = arena.constants;
  for (const PlannedPass* before : plan.passes()) {
    if (before == &pass) break;
    constants += before->constant_bytes();
  }
  return {arena.activations, constants};
}

}  // namespace

Arena::Arena(const MemoryNeed& need, Mesh& mesh)
    : memory(mesh.allocate(need.arena())),
      parameters(memory.data()),
      gradients(parameters + MemoryNeed::aligned(need.parameters)),
      optimizer(gradients + MemoryNeed::aligned(need.gradients)),
      activations(optimizer + MemoryNeed::aligned(need.optimizer)),
      constants(activations + MemoryNeed::aligned(need.activations)),
      checks(constants + MemoryNeed::aligned(need.constants)) {}

BoundTraining::BoundTraining(const Context& context, const PlannedTraining& plan,
                             const TieGroups& ties, StepProfile* profile,
                             std::function<void()> between_ops, observe::StatusPage& page)
    : between_ops_(std::move(between_ops)),
      arena_(allocate(context, plan.memory_need())),
      scalars_(context.stream()),
      flat(plan.flat, arena_.parameters, arena_.gradients),
      evaluate_inputs(plan.evaluate_inputs, context.device(), context.options().check_finite),
      evaluate(plan.evaluate, memory_of(plan.evaluate, plan, arena_), flat, context,
               {.between_ops = between_ops_, .scalars = scalars_, .page = page}) {
  std::vector<Pass*> passes;
  if (plan.spec.trains) {
    reducer.emplace(flat, context.mesh(), context.stream(), ties);
    optimizer.emplace(flat, context.mesh(), context.stream(), plan.spec.optimizer, scalars_.data(),
                      arena_.optimizer);
    train_inputs.emplace(plan.train_inputs, context.device(), context.options().check_finite);
    train.emplace(plan.train, memory_of(plan.train, plan, arena_), flat, context,
                  Pass::Settings{.reducer = &*reducer,
                                 .between_ops = between_ops_,
                                 .scalars = scalars_,
                                 .page = page,
                                 .profile = profile});
    passes.push_back(&*train);
  }
  if (plan.spec.check_replicas && context.data_size() > 1)
    replica_hashes.emplace(flat, context.mesh(), context.stream(), arena_.checks);
  if (plan.spec.verify_steps)
    step_hashes.emplace(
        flat, context.stream(),
        arena_.checks + (plan.spec.check_replicas ? ReplicaHashes::bytes(plan.flat) : 0));
  const Pass::Settings forward_only{.between_ops = between_ops_, .scalars = scalars_, .page = page};
  if (plan.generate)
    generate.emplace(*plan.generate, memory_of(*plan.generate, plan, arena_), flat, context,
                     forward_only);
  if (plan.outputs) {
    const PlannedPass& pass = plan.outputs->pass;
    outputs.emplace(pass, memory_of(pass, plan, arena_), flat, context, forward_only);
    outputs_batch.emplace(*plan.outputs, context);
  }
  passes.push_back(&evaluate);
  if (generate) passes.push_back(&*generate);
  if (outputs) passes.push_back(&*outputs);
  prepare_passes(context, passes,
                 {{arena_.parameters, MemoryNeed::aligned(plan.memory_need().parameters)},
                  {arena_.activations, MemoryNeed::aligned(plan.memory_need().activations)}});
  flat.clear(context.stream());
}

void BoundTraining::draw_initial_values(const Context& context,
                                        const std::function<Index(const std::string&)>& from_row) {
  const auto seed = static_cast<std::uint64_t>(context.options().seed);
  if (context.device().kind() == DeviceKind::cpu) {
    flat.initialise(seed, context.stream(), context.stream().pool(), from_row);
  } else {  // a host that has a GPU to compute takes all of its cores for this
    ThreadPool cores(cores_of_this_process());
    flat.initialise(seed, context.stream(), cores, from_row);
  }
  context.log().debug(str("initial values are drawn with --seed ", seed));
}

OutputBatch::OutputBatch(const PlannedOutputs& plan, const Context& context)
    : plan_(plan),
      inputs_(plan.inputs, context.device(), context.options().check_finite),
      stream_(context.stream()),
      results_(context.device().allocate_pinned(plan.result_bytes())),
      rows_(allocate_host(plan.row_bytes())),
      computed_(context.device().make_event()) {}

void OutputBatch::on_result(Index number, const Tensor& result) {
  if (plan_.makes)
    stream_.copy(results_.data() + number * result.bytes(), result.data, result.bytes());
}

void OutputBatch::queued() {
  inputs_.queued(stream_);
  computed_->record(stream_);
}

void OutputBatch::convert_results() {
  computed_->synchronize();
  const Index count = plan_.samples * plan_.sample.count();
  if (plan_.result.dtype == DType::bf16) {
    const auto* results = reinterpret_cast<const Bf16*>(results_.data());
    std::transform(results, results + count, reinterpret_cast<float*>(rows_.data()), to_float);
  } else if (plan_.result.dtype == DType::f64) {
    const auto* results = reinterpret_cast<const double*>(results_.data());
    std::transform(results, results + count, reinterpret_cast<float*>(rows_.data()),
                   [](double x) { return static_cast<float>(x); });
  } else {
    std::memcpy(rows_.data(), results_.data(), static_cast<std::size_t>(count) * sizeof(float));
  }
}

const float* OutputBatch::collect(int data, Index samples, const Context& context) {
  const MeshShape& shape = context.mesh().shape();
  const int last_stage = plan_.pass.program().shape.last_stage();
  const int owner = shape.rank_at({{Role::batch, data}, {Role::stage, last_stage}});
  const int mine = context.mesh().rank();
  if (mine == owner) convert_results();
  if (owner != 0) {
    const Host& host = context.host();
    const Message sent{0, rows_.data(), samples * plan_.sample.bytes()},
        received{owner, sent.data, sent.bytes};
    const auto only = [mine](const Message& message, int rank) {
      return std::span(&message, mine == rank ? 1 : 0);
    };
    host.world().exchange(only(sent, owner), only(received, 0), host.stream);
  }
  return reinterpret_cast<const float*>(rows_.data());
}

}  // namespace trireme::train
