// A Trainer is made in four moves, each agreed on by all ranks: trace and plan, check memory, allocate once, bind. Then
// comes the Checkpointer, which fills what was allocated.
#include "trireme/train/trainer.h"

#include <algorithm>
#include <sstream>

#include <fmt/format.h>
#include <unistd.h>

#include "trireme/comm/agree.h"

#include "runtime/train/trainer_state.h"

namespace trireme {
namespace {

constexpr Index alignment = 4096;

Index aligned(Index bytes) { return (bytes + alignment - 1) / alignment * alignment; }

FlatOptions flat_options(const Context& context) {
  FlatOptions flat;
  flat.bucket_bytes = context.options().bucket_size * size_bytes(DType::f32);
  flat.data_rank = context.mesh().coordinate(Axis::data);
  flat.data_size = context.data_size();
  flat.update = context.options().use_distributed_optimizer ? Update::sharded : Update::replicated;
  return flat;
}

std::string node_name() {
  char name[256] = {};
  require(gethostname(name, sizeof name - 1) == 0, "gethostname failed");
  return name;
}

/// What the arena, the inputs and the copy that is saved take on this rank.
struct MemoryNeed {
  Index parameters, gradients, optimizer, activations, inputs, checkpoint;
  Index arena() const {
    return aligned(parameters) + aligned(gradients) + aligned(optimizer) + aligned(activations);
  }
  Index total() const { return arena() + inputs + checkpoint; }
  std::string describe() const {
    std::string text =
        fmt::format("parameters {}, gradients {}, optimizer {}, activations {}, data {}",
                    show_bytes(parameters), show_bytes(gradients), show_bytes(optimizer),
                    show_bytes(activations), show_bytes(inputs));
    if (checkpoint > 0) text += ", checkpoint " + show_bytes(checkpoint);
    return text;
  }
};

MemoryNeed memory_need(const Trainer::State& s) {
  MemoryNeed need;
  need.parameters = s.flat->parameter_bytes();
  need.gradients = s.flat->gradient_bytes();
  need.optimizer = Optimizer::state_bytes(*s.flat, s.context.options().optimizer);
  need.activations = std::max(s.train->bytes(), s.evaluate->bytes());
  if (s.generate) need.activations = std::max(need.activations, s.generate->bytes());
  need.inputs = s.train->model().pointers().empty()
                    ? 0
                    : s.train_inputs->bytes() + s.evaluate_inputs->bytes();
  need.checkpoint = s.checkpoint_bytes;
  return need;
}

}  // namespace

Trainer::State::State(Context& context_, const Model& model)
    : context(context_), learning_rate(context_.options().learning_rate) {
  Problems problems;
  problems.collect([&] { plan(model); });
  agree_on(context.mesh().world(), context.stream(), problems);
  if (context.options().dump_plan) dump_plans();
  check_memory();
  allocate();
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
  train_inputs = std::make_unique<InputBatch>(*training.graph, training.pointers(), context);
  const PlannedModel& evaluation = evaluate->model();
  evaluate_inputs = std::make_unique<InputBatch>(*evaluation.graph, evaluation.pointers(), context);
}

/// All ranks of a node share its memory; the one that needs most speaks for them.
void Trainer::State::check_memory() {
  const MemoryNeed need = memory_need(*this);
  const std::string node = node_name();
  const auto all = gather_strings(context.mesh().world(), context.stream(),
                                  fmt::format("{} {}", node, need.total()));
  Index node_total = 0, most = 0, most_here = 0;
  int speaker = 0;
  node_ranks = 0;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    std::istringstream in(all[rank]);
    std::string name;
    Index bytes = 0;
    in >> name >> bytes;
    most = std::max(most, bytes);
    if (name != node) continue;
    node_total += bytes;
    ++node_ranks;
    if (bytes > most_here) most_here = bytes, speaker = static_cast<int>(rank);
  }
  const Index free = context.device().free_bytes();
  Problems problems;
  if (node_total > free && context.mesh().rank() == speaker)
    problems.add("the plan needs ", show_bytes(node_total), " for ", node_ranks,
                 node_ranks == 1 ? " rank" : " ranks", " on ", node, ", where ", show_bytes(free),
                 " are free; on this rank ", need.describe(), "; its largest tensors:\n",
                 largest_tensors(train->model().pointers(), *train->model().graph, 8),
                 "\n    what helps: a smaller --micro-batch-size, --recompute-granularity full, "
                 "--use-distributed-optimizer, more ranks for --tp or --pp",
                 need.checkpoint > 0 ? ", a smaller --save-buffer" : "");
  agree_on(context.mesh().world(), context.stream(), problems);
  context.log().info(
      fmt::format("memory planned: rank 0 {} ({}); largest rank {}; this node {} of {} free",
                  show_bytes(need.total()), need.describe(), show_bytes(most),
                  show_bytes(node_total), show_bytes(free)));
}

void Trainer::State::allocate() {
  const MemoryNeed need = memory_need(*this);
  const std::string planned = context.mesh().memory_description();
  arena = context.mesh().allocate(need.arena());
  if (context.mesh().memory_description() != planned)
    context.log().info("collectives: " + context.mesh().memory_description());
  std::byte* parameters = arena.data();
  std::byte* gradients = parameters + aligned(need.parameters);
  std::byte* state = gradients + aligned(need.gradients);
  std::byte* activations = state + aligned(need.optimizer);
  flat->bind(parameters, gradients);
  flat->initialise(static_cast<std::uint64_t>(context.options().seed), context.stream());
  reducer = std::make_unique<GradientReducer>(*flat, context.mesh(), context.stream());
  optimizer = std::make_unique<Optimizer>(*flat, context.mesh(), context.stream(),
                                          context.options().optimizer, state);
  train_inputs->allocate();
  evaluate_inputs->allocate();
  const auto between_ops = [this] {
    if (checkpointer) checkpointer->poll();
  };
  train->bind(activations, *flat, reducer.get(), context, between_ops);
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
  for (const std::string& text : gather_strings(context.mesh().world(), context.stream(), mine))
    if (!text.empty()) context.log().line(text);
}

Trainer::Trainer(Context& context, const Model& model)
    : state_(std::make_unique<State>(context, model)) {}
Trainer::~Trainer() = default;

void Trainer::resume(DataSource& train) {
  State& s = *state_;
  if (s.resumed) return;
  s.resumed = true;
  if (s.checkpointer) s.progress = s.checkpointer->load(train);
}

Index Trainer::steps_done() const { return state_->progress.step; }

}  // namespace trireme
