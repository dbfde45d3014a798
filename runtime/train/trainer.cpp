// Trainer: its construction, and an index of its other files.
//   trainer.cpp           construction, in the order of the members of State; resume
//   bound_training.cpp    the memory of a plan (runtime/plan/), and what works on it
//   fit.cpp               the loop around steps: when to log, evaluate, save and stop
//   training_step.cpp     one step, and one evaluation
//   chaos/                faults that a rank plants in itself when it is asked to
//   numerics/             comparisons that find silent corruption
//   inference/            generated text, and Model::result of samples
//   trainer_agreement.cpp what ranks compare: their models and their data
//   warm_up.cpp, memory_check.cpp, prepare.cpp   before step 1
//   tensor_dump.cpp, trainer_dump.cpp   --dump-tensors
//   layout/               what a layout needs, planned without ranks; --plan auto
//   profile/              --profile-ops
#include "trireme/train/trainer.h"

#include <algorithm>

#include "trireme/comm/agree.h"
#include "trireme/plan/training_spec.h"

#include "runtime/comm/page_of.h"
#include "runtime/graph/trace_warnings.h"
#include "runtime/options/left_out_samples.h"
#include "runtime/plan/frozen.h"
#include "runtime/train/layout/layout_report.h"
#include "runtime/train/memory_check.h"
#include "runtime/train/tensor_dump.h"
#include "runtime/train/trainer_agreement.h"
#include "runtime/train/trainer_state.h"
#include "runtime/train/warm_up.h"

namespace trireme {

using namespace train;

namespace {

/// How fast and how exact --bf16 is on this device.
std::string describe_bf16(const DeviceTraits& device) {
  return device.native_bf16
             ? "bf16: products by this device's own bf16 instructions, summed in fp32"
             : "bf16: this device has no bf16 instructions: products of bf16 numbers are computed "
               "in fp32 and rounded (as exact, not faster)";
}

/// Collective. The plans of one rank of each stage, printed by rank 0.
void dump_plans(const Context& context, const PlannedTraining& plan) {
  const bool speaks = plan.coordinate(Axis::data) == 0 && plan.coordinate(Axis::tensor) == 0;
  for (const std::string& text : gather_strings(context.host(), speaks ? plan.describe() : ""))
    if (!text.empty()) context.log().result(text);
}

/// "'embedding.weight' (embedding, head/linear)": the parameters that several ops read, and the
/// ops. Two layers of one name share their weights, which may be a mistake.
std::string shared_parameters(const Graph& graph) {
  std::vector<std::vector<const Node*>> readers(graph.values().size());
  for (const Node& node : graph.nodes())
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (!node.op->differentiable(static_cast<int>(i))) continue;
      std::vector<const Node*>& of_input = readers[static_cast<std::size_t>(node.inputs[i])];
      if (of_input.empty() || of_input.back() != &node) of_input.push_back(&node);
    }
  std::string all;
  for (const Parameter& parameter : graph.parameters()) {
    const std::vector<const Node*>& ops = readers[static_cast<std::size_t>(parameter.value)];
    if (ops.size() < 2) continue;
    all += (all.empty() ? "'" : ", '") + parameter.name() + "' (";
    for (const Node* op : ops) all += (op == ops.front() ? "" : ", ") + op->name;
    all += ")";
  }
  return all;
}

/// Collective.
PlannedTraining make_plan(const Context& context, const Model& model) {
  if (only_checks_layout(context)) throw check_layout(context, model);
  std::optional<PlannedTraining> plan;
  Problems problems;
  problems.collect([&] {
    plan.emplace(model, training_spec(context.options(), context.mesh().shape()),
                 context.mesh().rank(), context.device().traits());
    for (const PlannedPass* pass : {&plan->train, &plan->evaluate})
      for (const std::string& name : pass->model().metrics) check_metric_name(name);
  });
  agree_on(context.host(), problems);
  agree_on_model(context.host(), *plan, model.identity);
  if (context.options().own_schedule)
    context.log().info("pipeline schedule: the program's own, in place of --schedule");
  if (const std::string frozen = describe_frozen(*plan->train.model().graph);
      !frozen.empty() && plan->spec.trains)
    context.log().info("--freeze: " + frozen + " stay as they are");
  if (context.host().rank() == 0)
    for (const std::string& warning : warnings_of_trace(*plan->train.model().graph))
      context.log().warning(warning);
  if (context.options().bf16) context.log().info(describe_bf16(context.device().traits()));
  if (context.options().dump_plan) dump_plans(context, *plan);
  if (context.options().log_level == LogLevel::debug)
    if (const std::string shared = shared_parameters(*plan->train.model().graph); !shared.empty())
      context.log().debug("parameters that several ops share: " + shared);
  return std::move(*plan);
}

/// Collective.
TieGroups connect_groups(const Context& context, const PlannedTraining& plan) {
  TieGroups ties = split_ties(plan.flat, context.mesh());
  warm_up_groups(context, plan, ties);
  return ties;
}

/// Collective.
std::unique_ptr<Checkpointer> make_checkpointer(Context& context, BoundTraining& bound,
                                                const KeyValues& identity) {
  const CheckpointOptions& checkpoint = context.options().checkpoint;
  if (checkpoint.save.empty() && checkpoint.load.empty() && checkpoint.load_hf.empty())
    return nullptr;
  return std::make_unique<Checkpointer>(context, bound.flat,
                                        bound.optimizer ? &*bound.optimizer : nullptr, identity);
}

observe::StatusPage& in_phase_of_planning(observe::StatusPage& page) {
  page.enter(observe::Phase::plan);
  return page;
}

}  // namespace

Trainer::State::State(Context& context_, const Model& model)
    : context(context_),
      page(in_phase_of_planning(comm::page_of(context_.host().mesh, no_page))),
      planted(context, page),
      plan(make_plan(context, model)),
      ties(connect_groups(context, plan)),
      node_ranks(check_memory(context, plan)),
      profile(plan_profile(context, plan)),
      bound(
          context, plan, ties, profile ? &profile->steps : nullptr,
          [this] {
            if (polled) polled->poll();
            planted.at_op_boundary();
            announce_stop_if_asked();
          },
          page),
      checkpointer(make_checkpointer(context, bound, model.identity)),
      replicas(context, bound.flat, bound.replica_hashes ? &*bound.replica_hashes : nullptr),
      verification(context, bound.flat, bound.step_hashes ? &*bound.step_hashes : nullptr),
      learning_rate(context.options().learning_rate),
      left_out(options::left_out_samples(context.options())) {
  polled = checkpointer.get();
  if (bound.train_inputs) bound.train_inputs->skip(left_out);
  for (const std::string& name : plan.train.model().metrics) step_metrics.push_back({name});
  for (const std::string& name : plan.evaluate.model().metrics)
    evaluation_metrics.push_back({name});
  page.set_micro_batches(context.micro_batches());
  register_votes();
  sums_.resize(first_metric() + std::max(step_metrics.size(), evaluation_metrics.size()));
  page.enter(observe::Phase::program);
}

void Trainer::State::take_loaded(const std::optional<TrainingProgress>& loaded) {
  progress = last_update = loaded.value_or(TrainingProgress{});
  has_values_ = has_values_ || loaded;
}

void Trainer::State::need_training() const {
  require(plan.spec.trains,
          "a Trainer with Options::forward_only runs forward passes only: it cannot train");
}

void Trainer::State::need_values() {
  if (has_values_) return;
  has_values_ = true;
  if (context.options().checkpoint.load_hf.empty()) return bound.draw_initial_values(context);
  checkpointer->load_initial_values([this](const std::function<Index(const std::string&)>& held) {
    bound.draw_initial_values(context, held);
  });
}

Trainer::Trainer(Context& context, const Model& model)
    : state_(std::make_unique<State>(context, model)) {}
Trainer::~Trainer() = default;

void Trainer::resume(DataSource& train) {
  State& s = *state_;
  if (s.resumed) return;
  s.need_training();
  const State::Call call(s);
  s.resumed = true;
  agree_on_data(s.context.host(), &train, "data");
  s.page.enter(observe::Phase::load);
  if (s.checkpointer) {
    s.take_loaded(s.checkpointer->load(train));
    if (s.context.options().verify_step > 0)
      s.verification.resume_from(s.checkpointer->verified_step(s.progress));
    s.left_out = s.checkpointer->skipped_samples();
  }
  if (!s.left_out.empty())
    s.context.log().info("samples left out of the training data: " + s.left_out.text());
  s.need_values();
}

void Trainer::load_parameters(const UsedTokenizer& tokenizer) {
  State& s = *state_;
  const State::Call call(s);
  require(!s.resumed, "load_parameters() comes before the first step, and in place of resume()");
  s.resumed = true;
  s.page.enter(observe::Phase::load);
  if (s.checkpointer) s.take_loaded(s.checkpointer->load_parameters(tokenizer));
  s.need_values();
  s.context.log().info(
      str("nothing is trained: ", s.plan.spec.trains ? "--train-iters 0" : "forward passes only"));
  dump_parameters(s.bound.flat, s.context);
}

void Trainer::compare_with(const StepPrediction& predicted) {
  state_->comparison.emplace(predicted);
}

Index Trainer::steps_done() const { return state_->progress.step; }

}  // namespace trireme
