// Trainer: how it is made, and where the rest of it is.
//   trainer.cpp          construction: plan, check memory, allocate, bind, prepare; resume
//   fit.cpp              the loop around steps: when to log, evaluate, save and stop
//   training_step.cpp    one step, and one evaluation
//   generate.cpp         text of a trained model
//   trainer_prepare.cpp  before step 1: what first calls do besides their work
//   trainer_dump.cpp     --dump-tensors
//   profile/             --profile-ops
// A Trainer is made in five moves, each agreed on by all ranks: trace and plan (the same model),
// check memory (when NCCL has taken its own), allocate once, bind, prepare. Then comes the
// Checkpointer, which fills what was allocated.
#include "trireme/train/trainer.h"

#include <fmt/format.h>

#include "trireme/comm/agree.h"
#include "trireme/kernels/gemm.h"
#include "trireme/kernels/kernels.h"
#include "trireme/optim/learning_rate.h"

#include "runtime/job/affinity.h"
#include "runtime/train/memory_need.h"
#include "runtime/train/trainer_agreement.h"
#include "runtime/train/warm_up.h"

namespace trireme {
namespace {

/// How fast and how exact --bf16 is here.
std::string describe_bf16(Device& device) {
  const bool native = device.kernels().gemm.bf16_products(device) == Bf16Products::native;
  return native
             ? "bf16: products by this device's own bf16 instructions, summed in fp32"
             : "bf16: this device has no bf16 instructions: products of bf16 numbers are computed "
               "in fp32 and rounded (as exact, not faster)";
}

}  // namespace

Trainer::State::State(Context& context_, const Model& model)
    : context(context_),
      learning_rate(std::make_unique<LearningRate>(context_.options().learning_rate)) {
  Problems problems;
  problems.collect([&] { plan(model); });
  agree_on(context.host(), problems);
  agree_on_model(*this, model.identity);
  if (context.options().bf16) context.log().info(describe_bf16(context.device()));
  if (context.options().dump_plan) dump_plans();
  ties = split_ties(*flat, context.mesh());
  warm_up_groups(*this);
  check_memory(*this);
  plan_profile();
  allocate();
  prepare();
  const CheckpointOptions& checkpoint = context.options().checkpoint;
  if (!checkpoint.save.empty() || !checkpoint.load.empty())
    checkpointer = std::make_unique<Checkpointer>(context, *flat, *optimizer, model.identity);
}

void Trainer::State::plan(const Model& model) {
  const Options& o = context.options();
  const int stage = context.mesh().coordinate(Axis::pipeline);
  const PipelineShape shape{static_cast<int>(o.pipeline_size), static_cast<int>(o.chunks),
                            context.micro_batches()};
  train = std::make_unique<Pass>(plan_training(model.loss, context),
                                 make_program(o.schedule, shape, stage));
  const PlannedModel& training = train->model();
  Problems inputs;
  check_inputs(*training.graph, o.micro_batch_size, inputs);
  check_inputs_are_used(*training.graph, inputs);
  require(inputs.empty(), inputs.empty() ? "" : inputs.all().front());
  evaluate = std::make_unique<Pass>(
      plan_forward(model.evaluation ? model.evaluation : model.loss, context, training),
      make_forward_program(shape, stage));
  if (model.logits)
    generate = std::make_unique<Pass>(plan_forward(model.logits, context, training),
                                      make_forward_program({shape.stages, shape.chunks, 1}, stage));
  flat = std::make_unique<FlatParameters>(*training.graph, training.cut, training.pointers(),
                                          flat_options(context));
  checkpoint_bytes = Checkpointer::bytes(context, *flat, o.optimizer);
  loading_bytes = Checkpointer::loading_bytes(context, *flat);
  train_inputs = std::make_unique<InputBatch>(*training.graph, training.pointers(), context);
  const PlannedModel& evaluation = evaluate->model();
  evaluate_inputs = std::make_unique<InputBatch>(*evaluation.graph, evaluation.pointers(), context);
}

/// 40 ns a value: a host that has a GPU to compute takes all of its cores for this.
void Trainer::State::draw_initial_values() {
  const auto seed = static_cast<std::uint64_t>(context.options().seed);
  if (context.device().kind() == DeviceKind::cpu)
    return flat->initialise(seed, context.stream(), context.stream().pool());
  ThreadPool cores(cores_of_this_process());
  flat->initialise(seed, context.stream(), cores);
}

void Trainer::State::allocate() {
  const MemoryNeed need = memory_need(*this);
  const std::string planned = context.mesh().memory_description();
  arena = context.mesh().allocate(need.arena());
  if (context.mesh().memory_description() != planned)
    context.log().info("collectives: " + context.mesh().memory_description());
  std::byte* parameters = arena.data();
  std::byte* gradients = parameters + MemoryNeed::aligned(need.parameters);
  std::byte* state = gradients + MemoryNeed::aligned(need.gradients);
  std::byte* activations = state + MemoryNeed::aligned(need.optimizer);
  flat->bind(parameters, gradients);
  draw_initial_values();
  reducer =
      std::make_unique<GradientReducer>(*flat, context.mesh(), context.stream(), std::move(ties));
  optimizer = std::make_unique<Optimizer>(*flat, context.mesh(), context.stream(),
                                          context.options().optimizer, state);
  train_inputs->allocate(context.device());
  evaluate_inputs->allocate(context.device());
  const auto between_ops = [this] {
    if (checkpointer) checkpointer->poll();
  };
  train->bind(activations, *flat, reducer.get(), context, between_ops, profile.get());
  evaluate->bind(activations, *flat, nullptr, context, between_ops);
  if (generate) generate->bind(activations, *flat, nullptr, context, between_ops);
}

/// The plans of one rank of each stage, printed by rank 0.
void Trainer::State::dump_plans() const {
  std::string mine;
  if (context.mesh().coordinate(Axis::data) == 0 && context.mesh().coordinate(Axis::tensor) == 0) {
    for (const Plan& plan : train->model().chunks) mine += plan.describe();
    mine += fmt::format("slots of rank {}:", context.mesh().rank());
    for (const int slots : train->program().slots) mine += fmt::format(" {}", slots);
    mine += '\n';
    mine += flat->describe();
  }
  for (const std::string& text : gather_strings(context.host(), mine))
    if (!text.empty()) context.log().line(text);
}

Trainer::Trainer(Context& context, const Model& model)
    : state_(std::make_unique<State>(context, model)) {}
Trainer::~Trainer() = default;

void Trainer::resume(DataSource& train) {
  State& s = *state_;
  if (s.resumed) return;
  s.resumed = true;
  agree_on_data(s.context.host(), &train, "data");
  if (s.checkpointer) s.progress = s.last_update = s.checkpointer->load(train);
}

void Trainer::load_parameters() {
  State& s = *state_;
  require(!s.resumed, "load_parameters() comes before the first step, and in place of resume()");
  s.resumed = true;
  if (s.checkpointer) s.progress = s.last_update = s.checkpointer->load_parameters();
  s.context.log().info("nothing is trained: --train-iters 0");
  s.dump_parameters();
}

Index Trainer::steps_done() const { return state_->progress.step; }

}  // namespace trireme
