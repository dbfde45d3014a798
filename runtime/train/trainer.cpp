// Trainer: its construction, and an index of its other files.
//   trainer.cpp           construction, in the order of the members of State; resume; the loop
//                         around steps: when to log, evaluate, save and stop
//   bound_training.cpp    the memory of a plan (runtime/rank_plan/), and what works on it
//   training_step.cpp     one step, and one evaluation
//   chaos/                faults that a rank plants in itself when it is asked to
//   numerics/             comparisons that find silent corruption
//   sinks/                where records of steps, saves and what happened go: the log, --metrics
//   inference/            generated text, and Model::result of samples
//   trainer_agreement.cpp what ranks compare: their models and their data
//   memory_check.cpp      before step 1
//   tensor_dump.cpp       --dump-tensors
//   layout/               what a layout needs, planned without ranks; --plan auto
//   profile/              --profile-ops
#include "trireme/train/trainer.h"

#include <algorithm>
#include <deque>
#include <numeric>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "trireme/comm/agree.h"
#include "trireme/job/run.h"
#include "trireme/rank_plan/training_spec.h"

#include "runtime/comm/page_of.h"
#include "runtime/core/seconds_since.h"
#include "runtime/core/show_bytes.h"
#include "runtime/graph/trace_warnings.h"
#include "runtime/job/gemm_peak.h"
#include "runtime/optim/gradient_reducer.h"
#include "runtime/options/left_out_samples.h"
#include "runtime/rank_plan/parameter_groups.h"
#include "runtime/rank_plan/planned_training.h"
#include "runtime/train/layout/layout_report.h"
#include "runtime/train/memory_check.h"
#include "runtime/train/sinks/metrics_file.h"
#include "runtime/train/tensor_dump.h"
#include "runtime/train/trainer_agreement.h"
#include "runtime/train/trainer_state.h"

namespace trireme::train {
namespace {

// Makes NCCL allocate its memory before the plan is compared with what is free.
// NCCL (from 2.22 on) connects the ranks of a group when they first need it, not when the group is
// made, and takes buffers from the GPU for that: tens to hundreds of MiB a group. Without this that
// would be in step 1, when the arena has what was free. What it connects depends on the algorithm,
// which NCCL chooses by operation and size: hence all that a group runs, from a few bytes to the
// largest message of training. The order is the same on all ranks and each waits for one operation
// before the next one, so that groups that share ranks cannot wait for each other.

constexpr Index smallest = 8, factor = 64;
constexpr Index largest = Index{128} << 20;  // above, NCCL's choice stays the same
constexpr double seconds_worth_a_line = 5;

/// Operations on bytes whose content does not matter.
class Groups {
 public:
  Groups(Stream& stream, Buffer memory) : stream_(stream), memory_(std::move(memory)) {}

  void all_reduce(Communicator& group) {
    for_each_size([&](Index bytes) {
      group.all_reduce(floats(0, bytes / float_bytes), Reduction::sum, stream_);
    });
  }
  /// In place, as training does. `shares`: of the ranks of the group; empty: equal.
  void reduce_scatter(Communicator& group, const std::vector<Index>& shares = {}) {
    for_each_size([&](Index bytes) {
      const Divided message = divide(bytes, group, shares);
      group.reduce_scatter(message.all, message.mine, Reduction::sum, stream_, message.parts);
    });
  }
  void all_gather(Communicator& group, const std::vector<Index>& shares = {}) {
    for_each_size([&](Index bytes) {
      const Divided message = divide(bytes, group, shares);
      group.all_gather(message.mine, message.all, stream_, message.parts);
    });
  }
  void all_reduce_scalar(Communicator& group) {
    group.all_reduce({memory_.data(), 1, DType::f64}, Reduction::sum, stream_);
  }
  /// Each sends to its `peers` and receives from them, all at once.
  void exchange(Communicator& group, const std::set<int>& peers) {
    require(peers.size() <= 2, "a stage in a row or ring has ", peers.size(), " neighbours");
    for_each_size([&](Index bytes) {
      // Each neighbour has a quarter to send from, and one to receive in.
      const Index part = std::max<Index>(bytes / 4, 1);
      std::vector<Message> sends, receives;
      std::byte* at = memory_.data();
      for (const int peer : peers) {
        sends.push_back({peer, at, part});
        receives.push_back({peer, at + part, part});
        at += 2 * part;
      }
      group.exchange(sends, receives, stream_);
    });
  }

 private:
  static constexpr Index float_bytes = sizeof(float);
  /// A message, and the part of this rank.
  struct Divided {
    Elements all, mine;
    Parts parts;
  };
  Divided divide(Index bytes, const Communicator& group, const std::vector<Index>& shares) {
    const Index elements = bytes / float_bytes, rank = group.rank();
    if (shares.empty()) {
      const Index part = std::max<Index>(elements / group.size(), 1);
      return {floats(0, part * group.size()), floats(part * rank, part), {}};
    }
    std::vector<Index>& parts = parts_.emplace_back();
    const Index sum = std::accumulate(shares.begin(), shares.end(), Index{0});
    for (const Index share : shares) parts.push_back(elements * share / sum);
    const auto mine = parts.begin() + rank;
    const Index before = std::accumulate(parts.begin(), mine, Index{0});
    return {floats(0, std::accumulate(mine, parts.end(), before)), floats(before, *mine), {parts}};
  }
  Elements floats(Index begin, Index count) {
    return {memory_.data() + begin * float_bytes, count, DType::f32};
  }
  template <class F>
  void for_each_size(F f) {
    for (Index bytes = smallest; bytes < memory_.bytes(); bytes *= factor) f(bytes);
    f(memory_.bytes());
  }

  Stream& stream_;
  Buffer memory_;
  std::deque<std::vector<Index>> parts_;  // operations that are queued may read them
};

/// Collective. Bytes of the largest message of any rank, or what fits into memory.
Index message_bytes(const Context& context, const PlannedTraining& plan) {
  const Host& host = context.host();
  Index most = plan.memory_need().activations;  // no activation is larger
  for (const Bucket& bucket : plan.flat.all_buckets())
    most = std::max(most, bucket.range.count * size_bytes(DType::f32));
  constexpr Index share = 8;  // of what is free: NCCL needs the rest
  Index available = context.device().free_bytes() / (share * context.options().ranks_per_gpu);
  host.all_reduce({&most, 1, DType::i64}, Reduction::max);
  host.all_reduce({&available, 1, DType::i64}, Reduction::min);
  const Index least = smallest * context.mesh().shape().size();  // a part for each rank
  return std::max(std::min({most, largest, available}) / least, Index{1}) * least;
}

/// Stages that this one exchanges messages with in training, and so in any other pass.
std::set<int> neighbours(const StageProgram& program) {
  std::set<int> peers;
  for (const Exchange& exchange : program.exchanges)
    for (const auto* hops : {&exchange.sends, &exchange.receives})
      for (const Hop& hop : *hops) peers.insert(hop.peer);
  return peers;
}

/// Shares of data ranks in messages; empty: equal. There are equal parts beside unequal ones: of
/// buckets of a few lines, and the hashes of --check-replicas.
std::vector<std::vector<Index>> cuts_of(const FlatLayout& flat) {
  std::vector<std::vector<Index>> cuts(1);
  if (const std::vector<Index>& shares = flat.options().shares; !shares.empty())
    cuts.push_back(shares);
  return cuts;
}

void run_all(const Context& context, const PlannedTraining& plan, const TieGroups& ties,
             Groups& groups) {
  Mesh& mesh = context.mesh();
  const Options& o = context.options();
  groups.all_reduce_scalar(mesh.world());  // the gradients' norm
  if (Communicator& tensor = mesh.group(Role::tensor); tensor.size() > 1) {
    groups.all_reduce(tensor);
    groups.all_gather(tensor);
    groups.reduce_scatter(tensor);
  }
  if (Communicator& data = mesh.group(Role::gradient); data.size() > 1) {
    const bool loads = !o.checkpoint.load.empty() || !o.checkpoint.load_hf.empty();
    if (plan.spec.trains && !o.use_distributed_optimizer) groups.all_reduce(data);
    for (const std::vector<Index>& shares : cuts_of(plan.flat)) {
      if (plan.spec.trains && o.use_distributed_optimizer) groups.reduce_scatter(data, shares);
      if (o.use_distributed_optimizer || loads) groups.all_gather(data, shares);
    }
  }
  if (Communicator& pipeline = mesh.group(Role::stage); pipeline.size() > 1)
    groups.exchange(pipeline, neighbours(plan.train.program()));
  for (const auto& tie : ties)
    if (tie != nullptr && tie->size() > 1) groups.all_reduce(*tie);
}

/// Collective. Runs each operation of training once in each group of GPUs, on temporary memory: the
/// axes, the world and `ties`. Does nothing on CPUs and for one rank. Throws: JobError when a GPU
/// has no memory for that; Error of a group.
void warm_up_groups(const Context& context, const PlannedTraining& plan, const TieGroups& ties) {
  Mesh& mesh = context.mesh();
  Stream& stream = context.stream();
  if (stream.device().kind() == DeviceKind::cpu || mesh.shape().size() == 1) return;
  const double start = steady_seconds();
  const Index bytes = message_bytes(context, plan);
  Buffer memory;
  agree_or_stop(context.host(), [&] { memory = stream.device().allocate(bytes); });
  const Index free = stream.device().free_bytes();
  try {
    Groups groups(stream, std::move(memory));
    run_all(context, plan, ties, groups);
    stream.synchronize();
  } catch (const Error& error) {  // on a full GPU NCCL's own words say nothing of memory
    throw Error(str("ranks cannot be connected, with ", show_bytes(free), " free on GPU ",
                    stream.device().index(), ": ", error.what()));
  }
  context.host().world().barrier();  // ranks of one GPU: all have freed what they had
  const double took = seconds_since(start);
  if (took > seconds_worth_a_line)
    context.log().info(
        fmt::format("collectives: connected the ranks of all groups in {:.0f} s", took));
}

}  // namespace
}  // namespace trireme::train

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
  const bool speaks = plan.coordinate(Role::layers) == 0;
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
                                                const KeyValues& identity, Sinks& sinks) {
  const CheckpointOptions& checkpoint = context.options().checkpoint;
  if (checkpoint.save.empty() && checkpoint.load.empty() && checkpoint.load_hf.empty())
    return nullptr;
  return std::make_unique<Checkpointer>(context, bound.flat,
                                        bound.optimizer ? &*bound.optimizer : nullptr, identity,
                                        [&](const SaveRecord& save) { sinks.take(save); });
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
      sinks(make_sinks(context)),
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
      checkpointer(make_checkpointer(context, bound, model.identity, sinks)),
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
  list_observers();
  list_votes();
  page.enter(observe::Phase::program);
}

void Trainer::State::take_loaded(const std::optional<TrainingProgress>& loaded) {
  progress = last_update = loaded.value_or(TrainingProgress{});
  has_values_ = has_values_ || loaded;
  list_votes();
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

Sinks& train::sinks_of(Trainer& trainer) { return Trainer::State::of(trainer).sinks; }

Index Trainer::steps_done() const { return state_->progress.step; }

// The loop around steps. At a step boundary all ranks make the same decisions, from the step's
// number and from what they agreed on with its loss: whether to save, and whether to stop.

namespace {

double sum_over_ranks(const Host& host, double value) {
  host.all_reduce({&value, 1, DType::f64}, Reduction::sum);
  return value;
}

/// Collective. All but the peak.
RunRecord describe_run(const Context& context, const PlannedTraining& plan, Index step) {
  const Options& o = context.options();
  return {step, o.train_iters, o.compute(),
          sum_over_ranks(context.host(), plan.train.model().flops() *
                                             static_cast<double>(context.micro_batches()))};
}

/// The message for all ranks when the last saves failed; empty when the last one succeeded.
std::string failed_saves(const checkpoint::Saver* durable) {
  const Index failures = durable == nullptr ? 0 : durable->failures();
  if (failures == 0) return "";
  const Index committed = durable->newest();
  return str(failures == 1 ? "the last save" : str("the last ", failures, " saves"),
             " failed: ", durable->last_error(),
             committed < 0 ? "; this job has no checkpoint"
                           : str("; the newest checkpoint is that of step ", committed));
}

/// "; the newest checkpoint is ...": where to begin again.
std::string where_to_go_back(const std::string& directory, Index newest, Index last_update,
                             const std::string& failed) {
  if (!failed.empty()) return "; " + failed;
  if (newest < 0) return "; this job has no checkpoint";
  if (newest < last_update)
    return str("; go back to the newest checkpoint, that of step ", newest, ", with --load ",
               directory, " and, for example, a smaller --lr");
  return str(
      "; the newest checkpoint is that of the same step and leads here again; go back to an "
      "older one with --load ",
      directory, " --ckpt-step N");
}

/// What is saved when all have agreed to stop.
std::string describe_saved(Index step, Index last_update) {
  if (last_update == step) return "which is saved";
  return str("and step ", last_update, ", the last with an update, is saved");
}

/// `first`, `last`: the samples of these steps.
NoteRecord note_of_loss_spike(const StepRecord& step, Index first, Index last) {
  return {NoteRecord::Kind::loss_spike, step.step,
          str("loss spike: for ", LossSpikes::steps, " steps, to step ", step.step, " with loss ",
              step.loss, ", the loss lies more than ", LossSpikes::deviations,
              " median absolute deviations above the median of the last ", LossSpikes::window,
              "; their samples are ", first, '-', last)};
}

std::string why_stopped(const Context& context) {
  const std::string_view reason = context.stop_reason();
  return std::string(reason.empty() ? "another rank was asked to stop" : reason);
}

}  // namespace

void Trainer::State::announce_stop(Index last_step) {
  if (!stop_announced)
    context.log().info(str(why_stopped(context), ": stopping after step ", last_step,
                           "; the newest state will be saved"));
  stop_announced = true;
}

Trainer::State::End Trainer::State::run_steps(DataSource& train, DataSource* validation) {
  const Options& o = context.options();
  if (!o.profile_ops.empty() && progress.step >= o.profile_step)
    context.log().info(str("--profile-ops ", o.profile_ops, ": nothing is profiled: step ",
                           o.profile_step, " of --profile-step is done already"));
  given_gemm_rate(context.host());  // what is wrong there is said before the first step
  RunRecord run = describe_run(context, plan, progress.step);
  const bool resumes = !o.checkpoint.load.empty() && !o.checkpoint.finetune;
  open_metrics(context, sinks, resumes ? std::optional(progress.step) : std::nullopt);
  LossSpikes spikes;
  bool begun = false;
  for (;;) {
    running_step = progress.step + 1;
    announce_stop_if_asked();
    StepRecord record{step(train)};
    running_step = 0;
    if (!std::exchange(begun, true)) {
      // After the first step, so that a job that is started again trains sooner.
      run.peak_flops_per_s = gemm_peak_of_all_ranks(context, node_ranks);
      sinks.begin(run);
    }
    const bool last = record.step == o.train_iters;
    const bool diverged = record.skipped_in_row >= o.max_skipped;
    const bool evaluates = !diverged && !agreed.stop && validation != nullptr &&
                           o.eval_interval > 0 && (record.step % o.eval_interval == 0 || last);
    record.loss_spike = spikes.add(record.loss);
    if (record.loss_spike)
      sinks.take(note_of_loss_spike(
          record, left_out.at(progress.samples - LossSpikes::steps * o.global_batch_size),
          left_out.at(progress.samples - 1)));
    if (evaluates) record.valid_loss = run_evaluation(*validation, o.eval_iters, true, false);
    if (record.valid_loss) {
      record.valid_bits_per_byte =
          bits_per_byte(*record.valid_loss, validation->bytes_per_target());
      record.valid_metrics = evaluation_metrics;
    }
    sinks.take(record);
    if (comparison) comparison->add(context, record.step_ms);
    if (diverged) return End::diverged;
    if (agreed.stop) {
      announce_stop(record.step);
      return End::stopped;
    }
    if (last) return End::finished;
    if (checkpointer)
      checkpointer->end_step(record.step, record.skipped, [&] { return state_to_save(train); });
  }
}

SavedState Trainer::State::state_to_save(const DataSource& train) {
  compare_replicas();
  const bool compared = replicas.last_clean() == progress.step,
             twice = verification.last_clean() == progress.step;
  return {last_update, train,
          compared && twice ? "replicas, step"
          : compared        ? "replicas"
          : twice           ? "step"
                            : "",
          verification.last_clean()};
}

void Trainer::State::finish_saves(End end, const DataSource& train) {
  if (durable() != nullptr) {
    if (end != End::diverged) durable()->start(state_to_save(train));  // unless it is saved already
    progress.step == last_update.step ? durable()->finish_and_delete_older() : durable()->finish();
  }
  checkpointer->end_snapshots(end != End::diverged && is_saved());
}

std::string Trainer::State::describe_divergence(const std::string& failed) const {
  const Index skipped = progress.step - last_update.step;
  return str("stopped after step ", progress.step, ": the gradients of the last ",
             skipped == 1 ? "step" : str(skipped, " steps"), " were not finite (--max-skipped ",
             context.options().max_skipped, "); ",
             last_update.step == 0 ? "no step has made an update"
                                   : str("the last update was that of step ", last_update.step),
             where_to_go_back(context.options().checkpoint.save, last_committed(), last_update.step,
                              failed));
}

void Trainer::State::stop_after_training() {
  std::string what = ": stopped before the end; nothing was changed";
  if (plan.spec.trains)
    what = ": stopped after training, whose end is saved; start again with --load " +
           context.options().checkpoint.save + " to do what follows it";
  sinks.take(NoteRecord{NoteRecord::Kind::stopped, progress.step, why_stopped(context) + what});
  throw Stopped();
}

void Trainer::fit(DataSource& train, DataSource* validation) {
  State& s = *state_;
  const State::Call call(s);
  const Options& o = s.context.options();
  const Log& log = s.context.log();
  agree_on_data(s.context.host(), validation, "validation data");
  resume(train);

  State::End end = State::End::finished;
  if (s.progress.step < o.train_iters)
    end = s.run_steps(train, validation);
  else
    log.info(o.train_iters == 0
                 ? str("nothing is trained: --train-iters 0")
                 : str("nothing is left to train: step ", s.progress.step,
                       " is done, and --train-iters counts from the first step of the run to ",
                       o.train_iters));
  std::string failed;
  if (s.checkpointer) {
    s.page.enter(observe::Phase::save_wait);
    s.finish_saves(end, train);
    failed = failed_saves(s.durable());
  }
  if (end == State::End::diverged) {
    const NoteRecord note{NoteRecord::Kind::diverged, s.progress.step,
                          s.describe_divergence(failed)};
    s.sinks.take(note);
    throw JobError(note.text, ExitCode::diverged);
  }
  if (end == State::End::stopped) {
    const std::string stopped =
        str(why_stopped(s.context), ": stopped after step ", s.progress.step);
    if (!failed.empty()) throw JobError(stopped + ", but " + failed);
    s.sinks.take(NoteRecord{NoteRecord::Kind::stopped, s.progress.step,
                            stopped + ", " + describe_saved(s.progress.step, s.last_update.step) +
                                "; start again with --load " + o.checkpoint.save + " to resume"});
    throw Stopped();
  }
  dump_parameters(s.bound.flat, s.context);
  if (!failed.empty()) throw JobError("training is finished, but " + failed);
}

}  // namespace trireme
