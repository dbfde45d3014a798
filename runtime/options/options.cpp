// Declarations of the options of every program. Names are Megatron-LM's where it has one; short
// ones are aliases.
#include "trireme/options/options.h"

#include <algorithm>
#include <filesystem>

#include <fmt/ranges.h>

#include "trireme/core/named_values.h"
#include "trireme/rank_plan/training_spec.h"

#include "runtime/options/option_values.h"

namespace trireme {
namespace {

/// How this library was built, however the program that uses it was built.
constexpr bool debug_build = TRIREME_DEBUG_BUILD != 0;

constexpr Index most_ranks = Index{1} << 20;

using Use = OptionUse;

// Why an option has no effect; empty: it has one.
std::string idle(bool is_idle, const char* why) { return is_idle ? why : ""; }
std::string one_replica(const Options& o, Index ranks) {
  return idle(o.data_size(ranks) == 1, "data parallel size 1");
}
std::string no_replicas(const Options& o, Index ranks) {
  return idle(o.check_replicas > 0 && o.data_size(ranks) == 1, "data parallel size 1: no replicas");
}
std::string one_stage(const Options& o, Index /*ranks*/) {
  return idle(o.pipeline_size == 1, "pipeline parallel size 1");
}
std::string no_bubble(const Options& o, Index /*ranks*/) {
  return idle(o.pipeline_size == 1, "pipeline parallel size 1: no bubble to fill");
}
std::string no_bubble_of_chunks(const Options& o, Index ranks) {
  return o.chunks > 1 ? no_bubble(o, ranks) : "";
}
std::string no_steps(const Options& o, Index /*ranks*/) {
  return idle(o.train_iters == 0, "nothing is trained");
}

/// As CommandLine::choice, but a schedule of the program's own replaces the option, and the
/// effective configuration shows that.
void declare_schedule(CommandLine& c, Options& o) {
  std::vector<std::string> words;
  for (const auto& [word, kind] : named_values<ScheduleKind>()) words.push_back(word);
  const std::string value = fmt::format("{{{}}}", fmt::join(words, ","));
  const auto set = [&o, words, value](const std::vector<std::string>& given) {
    for (const auto& [word, kind] : named_values<ScheduleKind>())
      if (word == given.front()) {
        o.schedule = kind;
        return;
      }
    const std::string near = nearest(given.front(), words);
    throw Error("expected one of " + value + (near.empty() ? "" : "; did you mean " + near + "?"));
  };
  const auto show = [&o] {
    return o.own_schedule ? std::string("of the program") : std::string(name(o.schedule));
  };
  c.next({.layout = "schedule", .why_idle = no_bubble});
  c.add({"--schedule", value,
         "order of micro-batches in the pipeline; default: 1f1b, or interleaved with several "
         "virtual stages",
         false, set, show, false});
}

void declare_parallelism(CommandLine& c, Options& o) {
  c.group("Parallelism (data parallel size = ranks / tensor / pipeline)");
  c.next({.layout = "tp"});
  c.whole("--tensor-model-parallel-size,--tp", o.tensor_size, {1, most_ranks},
          "ranks that share every layer");
  c.next({.layout = "pp"});
  c.whole("--pipeline-model-parallel-size,--pp", o.pipeline_size, {1, most_ranks},
          "stages that the layers are cut into");
  c.next({.layout = "v", .why_idle = no_bubble_of_chunks});
  c.whole("--num-virtual-stages-per-pipeline-rank", o.chunks, {1, most_ranks},
          "model chunks that each pipeline rank holds; more than 1 needs the schedule interleaved "
          "or zero-bubble-v, which has 2; default: 1, or 2 with zero-bubble-v");
  declare_schedule(c, o);
  c.next({.uses = Use::shares, .why_idle = one_replica});
  c.whole_list("--data-parallel-shares", o.data_parallel_shares, {1, most_ranks},
               "micro-batches of each data rank relative to the others, for machines of unequal "
               "speed: with 3,2,1 the first runs half of them; default: equal shares");
  c.next({.uses = Use::shares, .why_idle = one_stage});
  c.real_list(
      "--stage-speeds", o.stage_speeds, {1e-6, 1e6, false, false},
      "speed of each pipeline rank relative to the others: with 2,1 the first gets layers of "
      "twice the work; default: equal speeds");
  c.next({.uses = Use::training, .layout = "zero", .why_idle = one_replica});
  c.flag("--use-distributed-optimizer", o.use_distributed_optimizer,
         "divide the optimizer's state and work among the data parallel ranks (ZeRO-1)");
  c.next({.uses = Use::shares | Use::training, .why_idle = one_replica});
  c.whole_list("--optimizer-shares", o.optimizer_shares, {0, most_ranks},
               "what each data rank keeps and updates of --use-distributed-optimizer, relative to "
               "the others: with 3,1 the first has three quarters; default: equal shares");
  c.next({.uses = Use::training});
  c.whole(
      "--bucket-size", o.bucket_size, at_least(1),
      "number of parameters whose gradients are reduced together (a bucket); small buckets start "
      "earlier, large ones cost less per byte");
  c.whole("--threads-per-rank", o.threads_per_rank, {1, 1024},
          "CPU threads of each rank; more ranks are usually faster than more threads");
}

void declare_device(CommandLine& c, Options& o) {
  c.group("Device");
  c.choice("--device", o.device,
           "device that trains; cuda: a GPU for each rank is required; auto: GPUs if all ranks see "
           "one, otherwise the CPU, and the log says why");
  c.choice(
      "--instruction-set", o.instruction_set,
      "widest instructions of CPU kernels and oneDNN; a narrower set gives the bits of a machine "
      "without wider ones; default: $TRIREME_INSTRUCTION_SET, or best");
  c.whole("--ranks-per-gpu", o.ranks_per_gpu, at_least(1),
          "ranks of a node that share a GPU; more than 1 is slow, meant for tests, and needs "
          "--serialize-communication");
  c.flag("--serialize-communication", o.serialize_communication,
         "run no GPU kernel at the same time as a collective; needed by ranks that share a GPU");
  if (debug_build) o.check_collectives = true;
  c.flag(
      "--check-collectives", o.check_collectives,
      "check over MPI that all ranks start the same collectives on their GPUs in the same order: a "
      "mistake is then an error, not a hang");
  c.text(
      "--gemm-cache", o.gemm_cache, "DIR",
      "directory that keeps the fastest algorithm of each matrix product on the GPU: timed once, "
      "then used by later jobs");
}

void declare_freeze(CommandLine& c, Options& o) {
  const auto set = [&o](const std::vector<std::string>& words) {
    std::vector<std::string> names = options::split_at_commas(words.front());
    require(std::find(names.begin(), names.end(), "") == names.end(),
            "expected names of parts of the model with commas between them, such as "
            "embedding,block.0-15");
    o.freeze = std::move(names);
  };
  const auto show = [&o] { return fmt::format("{}", fmt::join(o.freeze, ",")); };
  c.next({.why_idle = no_steps});
  c.add({"--freeze", "PART,...",
         "parts of the model that stay as they are, such as embedding,block.0-15: they need no "
         "gradients, fp32 masters or optimizer state; default: none",
         false, set, show, true});
}

void declare_training(CommandLine& c, Options& o) {
  c.group("Training");
  c.next({.layout = "mb"});
  c.whole("--micro-batch-size", o.micro_batch_size, at_least(1),
          "samples that one forward pass takes");
  c.whole(
      "--global-batch-size", o.global_batch_size, at_least(1),
      "samples of one step over all ranks; a multiple of data parallel size x --micro-batch-size");
  c.next({.uses = Use::run | Use::steps});
  c.whole("--train-iters", o.train_iters, at_least(0),
          "total number of steps, including those of a loaded checkpoint; 0: train nothing");
  c.whole("--seed", o.seed, {0, std::numeric_limits<Index>::max()},
          "seed of initial values, dropout and the order of the data");
  c.flag("--bf16", o.bf16,
         "compute with weights and activations in bf16; the optimizer updates weights in fp32");
  declare_freeze(c, o);

  OptimizerOptions& optimizer = o.optimizer;
  LearningRateOptions& rate = o.learning_rate;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  constexpr Real positive{0, infinity, true, false, true},
      not_negative{0, infinity, false, false, true};
  c.group("Optimizer", Use::training);
  c.choice("--optimizer", optimizer.kind, "rule that updates the weights");
  c.real("--lr", rate.lr, positive, "largest learning rate");
  c.group("Optimizer", Use::training | Use::steps);
  c.real("--min-lr", rate.min_lr, not_negative, "learning rate at the end of the decay");
  c.whole("--lr-warmup-iters", rate.warmup_iters, at_least(0),
          "steps of linear warm-up; step s of W has --lr x s / (W + 1)");
  c.choice("--lr-decay-style", rate.decay,
           "how the learning rate falls from --lr to --min-lr; WSD: at the end only");
  c.whole("--lr-decay-iters", rate.decay_iters, at_least(1),
          "steps until --min-lr is reached, warm-up included: later ones have it; default: "
          "--train-iters");
  c.whole("--lr-wsd-decay-iters", rate.wsd_decay_iters, at_least(1),
          "with WSD: number of final steps in which the learning rate falls; default: a tenth of "
          "--lr-decay-iters");
  c.choice("--lr-wsd-decay-style", rate.wsd_decay,
           "with WSD: how the learning rate falls in these final steps");
  c.group("Optimizer", Use::training);
  c.real("--weight-decay", optimizer.weight_decay, not_negative,
         "weight decay; norms and biases have none");
  c.real("--clip-grad", optimizer.clip_norm, {0, infinity, false, false},
         "largest global gradient norm; 0: no clipping");
  c.whole("--max-skipped", o.max_skipped, at_least(1),
          "stop with exit code 65 after N steps in a row whose gradients were not finite");
  c.next({.uses = Use::steps, .why_idle = no_replicas});
  c.whole(
      "--check-replicas", o.check_replicas, at_least(0),
      "steps between comparisons of the data replicas' parameters, which also precede each save; "
      "a difference stops with exit code 66; 0: never");
  c.next({.uses = Use::steps});
  c.whole("--verify-step", o.verify_step, at_least(0),
          "compute every N-th step twice; other bits the second time stop with exit code 66; 0: "
          "never");
  c.real("--adam-beta1", optimizer.beta1, {0, 1, false, true},
         "decay of the first moment, with --optimizer adamw");
  c.real("--adam-beta2", optimizer.beta2, {0, 1, false, true},
         "decay of the second moment, with --optimizer adamw");
  c.real("--adam-eps", optimizer.epsilon, positive,
         "number added to the root of the second moment, with --optimizer adamw");
  c.real("--momentum,--sgd-momentum", optimizer.momentum, {0, 1, false, true},
         "momentum, with --optimizer sgd");
}

/// 0 for "auto".
Index parse_save_interval(const std::string& word) {
  if (word == "auto") return 0;
  try {
    return options::parse_whole(word, at_least(1));
  } catch (const Error& error) {
    throw Error(str(error.what(), ", or auto"));
  }
}

void declare_save_interval(CommandLine& c, CheckpointOptions& o) {
  c.next({.uses = Use::run});
  c.add({"--save-interval", "{N,auto}",
         "steps between checkpoints; auto: `trireme run` chooses, from the cost of a save and the "
         "time between failures; default: only at the end",
         false,
         [&o](const std::vector<std::string>& words) {
           o.save_interval_auto = words.front() == "auto";
           o.save_interval = parse_save_interval(words.front());
         },
         [&o] {
           return o.save_interval_auto  ? std::string("auto")
                  : o.save_interval > 0 ? std::to_string(o.save_interval)
                                        : std::string();
         }});
}

void declare_checkpoints(CommandLine& c, CheckpointOptions& o) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  c.group("Checkpoints", Use::beside);
  c.next({.uses = Use::run});
  c.text(
      "--save", o.save, "DIR",
      "directory for checkpoints; one is written at the end in any case, and when a signal stops "
      "the job");
  declare_save_interval(c, o);
  c.next({.uses = Use::run});
  c.real("--save-interval-seconds", o.save_interval_seconds, {0, infinity, true, false},
         "seconds between checkpoints; may be combined with --save-interval; default: not by time");
  c.flag("--async-save", o.async_save,
         "continue training while a checkpoint is written (the default)");
  c.flag_off("--no-async-save", o.async_save,
             "wait until a checkpoint is durable before training continues");
  c.size(
      "--save-buffer", o.save_buffer, Index{2} << 20,
      "host memory of each rank for the copy that is written, such as 512M or 2G; default: all of "
      "the rank's share; with less, training waits longer");
  c.whole("--save-memory-interval", o.save_memory_interval, at_least(1),
          "steps between snapshots in memory of the node (/dev/shm), from which a job that "
          "`trireme run` starts again resumes; default: none");
  c.flag("--save-memory-partner", o.save_memory_partner,
         "keep a copy of each snapshot in memory of another node, for when a node is lost; takes "
         "as much memory again");
  c.text("--save-local", o.save_local, "DIR",
         "also keep snapshots on a disk of the node, for when its memory is lost as well; DIR must "
         "exist on each node");
  c.whole("--save-local-interval", o.save_local_interval, at_least(1),
          "steps between these, a multiple of --save-memory-interval; default: 10 times that");
  c.whole("--keep-last", o.keep_last, at_least(1),
          "number of newest checkpoints to keep; default: all");
  c.next({.uses = Use::run});
  c.whole("--save-retain-interval", o.save_retain_interval, at_least(1),
          "also keep checkpoints whose step is a multiple of N; default: none");
  c.next({.uses = Use::run | Use::start});
  c.text("--load", o.load, "DIR",
         "directory of checkpoints: resume from the newest intact one; if it has none, start from "
         "scratch");
  c.next({.uses = Use::run | Use::start});
  c.whole("--ckpt-step", o.ckpt_step, at_least(0),
          "step of the checkpoint to resume from; default: the newest intact one");
  c.group("Checkpoints", Use::steps | Use::training);
  c.list("--skip-samples", o.skip_samples, "A-B...",
         "samples of the data order to leave out, counted from 0, A and B too; none that the job "
         "has read already; checkpoints keep them");
  c.group("Checkpoints", Use::beside);
  c.next({.uses = Use::start});
  c.flag("--finetune", o.finetune, "load the weights only, and begin at step 0");
  c.next({.uses = Use::start | Use::training});
  c.flag_off("--no-load-optim", o.load_optimizer,
             "load no optimizer state: its moments begin at 0");
  c.next({.uses = Use::model_files});
  c.flag("--use-checkpoint-args", o.use_checkpoint_args,
         "take the options of the model, and --bf16, from the checkpoint of --load");
  c.flag("--exit-on-missing-checkpoint", o.exit_on_missing_checkpoint,
         "stop with exit code 64 when --load has no checkpoint, instead of starting from scratch");
  c.real("--exit-duration-seconds", o.exit_duration_seconds, {0, infinity, true, false},
         "save, and stop with exit code 75, this long after the start; default: no limit");
}

void declare_reports(CommandLine& c, Options& o) {
  c.group("Reports and debugging", Use::beside);
  c.whole("--log-interval", o.log_interval, at_least(1), "steps between log lines");
  c.next({.uses = Use::run});
  c.text("--metrics", o.metrics, "FILE",
         "file to which each step appends one line of JSON; default: metrics.jsonl in --save");
  c.choice("--log-level", o.log_level, "how much is printed, beside results and warnings");
  c.text("--profile-ops", o.profile_ops, "FILE",
         "time every op of one step; print a table, and write this file of JSON");
  c.whole("--profile-step", o.profile_step, at_least(1),
          "step that --profile-ops times; default: 10, or the last step of a shorter job");
  c.flag("--dump-plan", o.dump_plan,
         "print the memory plan of every stage and the gradient buckets before training");
  c.add({"--plan-only", "",
         "start nothing, but print the plan of all ranks, without mpirun: --plan-only=64 for 64 "
         "ranks, --plan-only=64,H100-SXM on these GPUs",
         false, [&o](const std::vector<std::string>&) { o.plan_only = true; },
         [&o] { return std::string(o.plan_only ? "true" : "false"); }});
  c.group("Reports and debugging");
  c.flag("--check-finite", o.check_finite,
         "stop at the first op whose output is not finite, with its name and micro-batch (slow)");
  c.group("Reports and debugging", Use::beside);
  c.text("--dump-tensors", o.dump_tensors, "PREFIX",
         "write the gradients of step 1 and the final parameters to files with this prefix, to "
         "compare layouts");
}

}  // namespace

TrainingSpec training_spec(const Options& options, const MeshShape& mesh) {
  TrainingSpec spec;
  spec.mesh = mesh;
  spec.chunks = static_cast<int>(options.chunks);
  spec.schedule = options.schedule;
  spec.own_schedule = options.own_schedule;
  spec.micro_batch_size = options.micro_batch_size;
  spec.global_batch_size = options.global_batch_size;
  for (const std::string& part : options.freeze)
    spec.groups.push_back({.pattern = part, .trained = false});
  spec.compute = options.compute();
  spec.optimizer = options.optimizer;
  spec.update = options.use_distributed_optimizer ? Update::sharded : Update::replicated;
  spec.bucket_size = options.bucket_size;
  spec.trains = !options.forward_only;
  spec.check_replicas = spec.trains && options.check_replicas > 0;
  spec.verify_steps = spec.trains && options.verify_step > 0;
  spec.guard = options.check_finite;
  spec.data_parallel_shares = options.data_parallel_shares;
  if (spec.trains) spec.optimizer_shares = options.optimizer_shares;
  spec.stage_speeds = options.stage_speeds;
  return spec;
}

const char* name(DeviceOption device) {
  switch (device) {
    case DeviceOption::automatic:
      return "auto";
    case DeviceOption::cpu:
      return "cpu";
    case DeviceOption::cuda:
      return "cuda";
  }
  return "";
}

void declare_options(CommandLine& command, Options& options) {
  declare_parallelism(command, options);
  declare_device(command, options);
  declare_training(command, options);
  declare_checkpoints(command, options.checkpoint);
  declare_reports(command, options);
  command.config_file();
  for (const char* name : {"--threads-per-rank", "--log-level"}) command.may_differ(name);
  for (const char* name : {"--metrics", "--profile-ops"}) command.writes(name);
  command.writes("--dump-tensors",
                 {".gradients.index", ".gradients.f32", ".parameters.index", ".parameters.f32"});
}

void declare_evaluation(CommandLine& command, Options& options) {
  const auto evaluates_nothing = [&command](const Options& o, Index) {
    const bool weights_are_given = !o.checkpoint.load.empty() || !o.checkpoint.load_hf.empty();
    const bool of_data = command.find("--data-path") != nullptr && command.given("--data-path");
    return o.eval_interval > 0 && !(weights_are_given && of_data) ? no_steps(o, 0) : "";
  };
  command.group("Evaluation", Use::steps);
  command.next({.why_idle = evaluates_nothing});
  command.whole("--eval-interval", options.eval_interval, at_least(0),
                "steps between evaluations; the last step is evaluated as well; 0: never; with "
                "--train-iters 0 and --load, any other number evaluates the checkpoint");
  command.next({.why_idle = evaluates_nothing});
  command.whole("--eval-iters", options.eval_iters, at_least(1),
                "global batches of an evaluation, always the same ones");
}

void derive_defaults(const CommandLine& command, Options& options) {
  LearningRateOptions& rate = options.learning_rate;
  const bool goes_up_and_down = options.schedule == ScheduleKind::zero_bubble_v;
  if (goes_up_and_down && !command.given("--num-virtual-stages-per-pipeline-rank"))
    options.chunks = 2;
  if (!command.given("--schedule") && options.chunks > 1 &&
      !(goes_up_and_down && options.chunks == 2))  // the default of a program
    options.schedule = ScheduleKind::interleaved;
  if (!command.given("--lr-decay-iters"))
    rate.decay_iters =
        options.train_iters > 0 ? options.train_iters : std::max<Index>(rate.warmup_iters, 1);
  if (rate.decay == LearningRateOptions::Decay::wsd && !command.given("--lr-wsd-decay-iters"))
    rate.wsd_decay_iters = default_wsd_decay_iters(rate);
  if (!command.given("--profile-step"))
    options.profile_step = std::min(options.profile_step, std::max<Index>(options.train_iters, 1));
  if (options.metrics.empty() && !options.checkpoint.save.empty())
    options.metrics = (std::filesystem::path(options.checkpoint.save) / "metrics.jsonl").string();
}

}  // namespace trireme
