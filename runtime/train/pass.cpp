#include "runtime/train/pass.h"

#include <array>

#include "runtime/graph/constants.h"

namespace trireme::train {
namespace {

/// Between ops all that is in flight progresses: reductions of gradients, transfers between stages,
/// and what the owner of the pass has besides (saves).
class ChunkHooks final : public GradientReducer::Hooks {
 public:
  /// `chunk`: whose steps `profile` marks.
  ChunkHooks(GradientReducer* reducer, Communicator& pipeline, std::function<void()> between_ops,
             int chunk, StepProfile* profile, observe::StatusPage& page, const Plan& plan)
      : Hooks(reducer, chunk),
        pipeline_(pipeline),
        between_ops_(std::move(between_ops)),
        chunk_(chunk),
        profile_(profile),
        page_(page),
        actions_{page.add_name("forward"), page.add_name("backward"),
                 page.add_name("parameter backward")} {
    if (!page.on()) return;
    for (const StepWork& work : plan.work())
      ops_.push_back(page.add_name(work.name.empty() ? work.op : work.name));
  }
  void pass_begins(Pass pass, const MicroBatch& batch) override {
    page_.begin_micro_batch(static_cast<int>(batch.number),
                            actions_[static_cast<std::size_t>(pass)]);
  }
  void step_begins(int step) override {
    if (page_.on()) page_.begin_op(step, ops_[static_cast<std::size_t>(step)]);
  }
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
  observe::StatusPage& page_;
  std::array<observe::NameId, 3> actions_;  // by Pass
  std::vector<observe::NameId> ops_;        // by step of the plan
};

}  // namespace

Pass::Pass(const PlannedPass& plan, const PassMemory& memory, const FlatParameters& flat,
           const Context& context, const Settings& settings)
    : plan_(plan),
      scalars_(settings.scalars),
      pipeline_(plan.program(), make_chunks(memory, flat, context, settings),
                context.mesh().group(Role::stage), context.stream()) {}

std::vector<PipelineChunk> Pass::make_chunks(const PassMemory& memory, const FlatParameters& flat,
                                             const Context& context, const Settings& settings) {
  const ExecutorOptions options{static_cast<std::uint64_t>(context.options().seed),
                                context.options().check_finite};
  write_constants(*model().graph, memory.constants, context.stream());
  Communicator& pipeline = context.mesh().group(Role::stage);
  std::byte* slots = memory.activations;
  std::byte* scratch = slots + plan_.slot_bytes();
  std::vector<PipelineChunk> chunks;
  for (std::size_t c = 0; c < model().chunks.size(); ++c) {
    const Plan& plan = model().chunks[c];
    ExecutorMemory executor_memory;
    executor_memory.slots = slots;
    executor_memory.slot_stride = plan_.slot_stride(c);
    executor_memory.scratch = scratch;
    executor_memory.constants = memory.constants;
    executor_memory.scalars = scalars_.data();
    executor_memory.parameters = flat.parameter_tensors(plan);
    if (settings.reducer != nullptr) executor_memory.gradients = flat.gradient_tensors(plan);
    slots += plan_.program().slots[c] * plan_.slot_stride(c);
    hooks_.push_back(std::make_unique<ChunkHooks>(settings.reducer, pipeline, settings.between_ops,
                                                  static_cast<int>(c), settings.profile,
                                                  settings.page, plan));
    executors_.push_back(std::make_unique<Executor>(plan, std::move(executor_memory),
                                                    context.stream(), context.mesh(),
                                                    *hooks_.back(), options));
    chunks.push_back({&plan, executors_.back().get()});
  }
  return chunks;
}

void Pass::prepare(Preparation& preparation, const std::function<void()>& after_each) {
  for (const auto& executor : executors_) executor->prepare(preparation, after_each);
}

Index Pass::preparations() const {
  Index sum = 0;
  for (const auto& executor : executors_) sum += executor->preparations();
  return sum;
}

}  // namespace trireme::train
