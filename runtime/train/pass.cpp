#include "runtime/train/pass.h"

#include <algorithm>

#include "runtime/core/round_up.h"
#include "runtime/core/show_bytes.h"

namespace trireme {
namespace {

constexpr Index alignment = 4096;

/// Between ops all that is in flight progresses: reductions of gradients, transfers between stages,
/// and what the owner of the pass has besides (saves).
class ChunkHooks final : public GradientReducer::Hooks {
 public:
  /// `chunk`: whose steps `profile` marks.
  ChunkHooks(GradientReducer* reducer, Communicator& pipeline, std::function<void()> between_ops,
             int chunk, StepProfile* profile)
      : Hooks(reducer, chunk),
        pipeline_(pipeline),
        between_ops_(std::move(between_ops)),
        chunk_(chunk),
        profile_(profile) {}
  void step_queued(int step) override {
    if (profile_ != nullptr) profile_->mark(chunk_, step);
  }
  void op_boundary() override {
    Hooks::op_boundary();
    pipeline_.progress();
    between_ops_();
    if (profile_ != nullptr) profile_->mark(StepPart::between_ops);
  }

 private:
  Communicator& pipeline_;
  std::function<void()> between_ops_;
  int chunk_;
  StepProfile* profile_;
};

}  // namespace

Pass::Pass(PlannedModel model, StageProgram program)
    : model_(std::move(model)), program_(std::move(program)) {
  constexpr Index most_bytes = Index{1} << 60;
  const auto chunks = static_cast<Index>(model_.chunks.size());
  for (std::size_t c = 0; c < model_.chunks.size(); ++c)
    require(program_.slots[c] <= most_bytes / chunks / std::max<Index>(1, slot_stride(c)),
            "the schedule keeps ", program_.slots[c], " micro-batches at a time, of ",
            show_bytes(slot_stride(c)),
            " each: more than any memory; a smaller --micro-batch-size or --global-batch-size");
}

Index Pass::slot_stride(std::size_t chunk) const {
  return round_up(model_.chunks[chunk].bytes().slot, alignment);
}

Index Pass::slot_bytes() const {
  Index sum = 0;
  for (std::size_t c = 0; c < model_.chunks.size(); ++c) sum += program_.slots[c] * slot_stride(c);
  return sum;
}

void Pass::bind(std::byte* memory, const FlatParameters& flat, GradientReducer* reducer,
                const Context& context, const std::function<void()>& between_ops,
                StepProfile* profile) {
  const ExecutorOptions options{static_cast<std::uint64_t>(context.options().seed),
                                context.options().check_finite};
  Communicator& pipeline = context.mesh().axis(Axis::pipeline);
  std::byte* scratch = memory + slot_bytes();
  std::vector<PipelineChunk> chunks;
  for (std::size_t c = 0; c < model_.chunks.size(); ++c) {
    const Plan& plan = model_.chunks[c];
    ExecutorMemory executor_memory;
    executor_memory.slots = memory;
    executor_memory.slot_stride = slot_stride(c);
    executor_memory.scratch = scratch;
    executor_memory.parameters = flat.parameters(plan);
    if (reducer != nullptr) executor_memory.gradients = flat.gradients(plan);
    memory += program_.slots[c] * slot_stride(c);
    hooks_.push_back(
        std::make_unique<ChunkHooks>(reducer, pipeline, between_ops, static_cast<int>(c), profile));
    executors_.push_back(
        std::make_unique<Executor>(plan, std::move(executor_memory), context.stream(),
                                   context.mesh().axis(Axis::tensor), *hooks_.back(), options));
    chunks.push_back({&plan, executors_.back().get()});
  }
  pipeline_ =
      std::make_unique<PipelineExecutor>(program_, std::move(chunks), pipeline, context.stream());
}

void Pass::prepare(Preparation& preparation, const std::function<void()>& after_each) {
  for (const auto& executor : executors_) executor->prepare(preparation, after_each);
}

Index Pass::preparations() const {
  Index sum = 0;
  for (const auto& executor : executors_) sum += executor->preparations();
  return sum;
}

}  // namespace trireme
