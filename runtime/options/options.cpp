// Declarations of the options of every program. Names are Megatron-LM's where it has one; short
// ones are aliases.
#include "trireme/options/options.h"

#include <algorithm>
#include <filesystem>

#include "trireme/plan/training_spec.h"

namespace trireme {
namespace {

/// How this library was built, however the program that uses it was built.
constexpr bool debug_build = TRIREME_DEBUG_BUILD != 0;

constexpr Index most_ranks = Index{1} << 20;

void declare_parallelism(CommandLine& c, Options& o) {
  c.group("Parallelism (data parallel size = ranks / tensor / pipeline)");
  c.whole("--tensor-model-parallel-size,--tp", o.tensor_size, {1, most_ranks},
          "ranks that share every layer");
  c.whole("--pipeline-model-parallel-size,--pp", o.pipeline_size, {1, most_ranks},
          "stages that the layers are cut into");
  c.whole("--num-virtual-stages-per-pipeline-rank", o.chunks, {1, most_ranks},
          "chunks of layers that each pipeline rank holds; they need the interleaved schedule");
  c.choice("--schedule", o.schedule,
           "order of micro-batches in the pipeline; default 1f1b, with several virtual stages "
           "interleaved");
  c.flag("--use-distributed-optimizer", o.use_distributed_optimizer,
         "share the optimizer's state and work over the data ranks (ZeRO-1)");
  c.whole("--bucket-size", o.bucket_size, at_least(1),
          "parameters of a bucket, whose gradients are reduced together");
  c.whole("--threads-per-rank", o.threads_per_rank, {1, 1024}, "CPU threads of each rank");
}

void declare_device(CommandLine& c, Options& o) {
  c.group("Device");
  c.choice("--device", o.device,
           "device that trains; auto: GPUs where all ranks have one, else the CPU, and the log "
           "says why");
  c.choice(
      "--instruction-set", o.instruction_set,
      "widest instructions that CPU kernels and oneDNN use; a narrower set gives the bits of a "
      "machine that has no wider one; default $TRIREME_INSTRUCTION_SET");
  c.whole("--ranks-per-gpu", o.ranks_per_gpu, at_least(1),
          "ranks of a node that share a GPU; more than 1 is slow and meant for tests");
  c.flag("--serialize-communication", o.serialize_communication,
         "let no GPU kernel run beside a collective; needed by ranks that share a GPU");
  if (debug_build) o.check_collectives = true;
  c.flag("--check-collectives", o.check_collectives,
         "compare over MPI what collectives the ranks start on their GPUs: a different order is an "
         "error rather than a hang");
  c.text("--gemm-cache", o.gemm_cache, "DIR",
         "directory for the fastest way to compute each matrix product on the GPU, which is timed "
         "once and used by all later jobs");
}

void declare_training(CommandLine& c, Options& o) {
  c.group("Training");
  c.whole("--micro-batch-size", o.micro_batch_size, at_least(1),
          "samples that one forward pass takes");
  c.whole("--global-batch-size", o.global_batch_size, at_least(1),
          "samples of one step, over all ranks");
  c.whole("--train-iters", o.train_iters, at_least(0),
          "steps in all, those of the checkpoint included; 0: train nothing, or nothing more");
  c.whole("--seed", o.seed, {0, std::numeric_limits<Index>::max()},
          "seed of initial values, dropout and the order of the data");
  c.flag("--bf16", o.bf16,
         "compute with weights and activations in bf16; the weights that are updated stay f32");

  OptimizerOptions& optimizer = o.optimizer;
  LearningRateOptions& rate = o.learning_rate;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  constexpr Real positive{0, infinity, true, false, true},
      not_negative{0, infinity, false, false, true};
  c.group("Optimizer");
  c.choice("--optimizer", optimizer.kind, "rule that updates the weights");
  c.real("--lr", rate.lr, positive, "largest learning rate");
  c.real("--min-lr", rate.min_lr, not_negative, "learning rate after the decay");
  c.whole("--lr-warmup-iters", rate.warmup_iters, at_least(0), "steps of linear warm-up from 0");
  c.choice("--lr-decay-style", rate.decay,
           "how the learning rate falls from --lr to --min-lr; WSD: at the end only");
  c.whole("--lr-decay-iters", rate.decay_iters, at_least(1),
          "steps until --min-lr; default --train-iters");
  c.whole("--lr-wsd-decay-iters", rate.wsd_decay_iters, at_least(1),
          "with WSD: the last steps of --lr-decay-iters, in which the rate falls; default a tenth "
          "of it");
  c.choice("--lr-wsd-decay-style", rate.wsd_decay,
           "with WSD: how the rate falls in the last steps");
  c.real("--weight-decay", optimizer.weight_decay, not_negative,
         "decay of weights; norms and biases have none");
  c.real("--clip-grad", optimizer.clip_norm, {0, infinity, false, false},
         "largest global gradient norm; 0: no clipping");
  c.whole("--max-skipped", o.max_skipped, at_least(1),
          "stop with exit code 65 when the gradients of so many steps in a row were not finite");
  c.real("--adam-beta1", optimizer.beta1, {0, 1, false, true}, "decay of the first moment");
  c.real("--adam-beta2", optimizer.beta2, {0, 1, false, true}, "decay of the second moment");
  c.real("--adam-eps", optimizer.epsilon, positive, "added to the root of the second moment");
  c.real("--momentum,--sgd-momentum", optimizer.momentum, {0, 1, false, true},
         "momentum of --optimizer sgd");
}

void declare_checkpoints(CommandLine& c, CheckpointOptions& o) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  c.group("Checkpoints");
  c.text("--save", o.save, "DIR",
         "directory to write checkpoints to: at the end at least, and when a signal stops the job");
  c.whole("--save-interval", o.save_interval, at_least(1),
          "steps between checkpoints; default only at the end");
  c.real("--save-interval-seconds", o.save_interval_seconds, {0, infinity, true, false},
         "seconds between checkpoints; default not by time");
  c.flag("--async-save", o.async_save, "train while a checkpoint is written (the default)");
  c.flag_off("--no-async-save", o.async_save,
             "wait until a checkpoint is durable before training continues");
  c.size("--save-buffer", o.save_buffer, Index{2} << 20,
         "host memory that a rank takes to save; default its whole share of the checkpoint; with "
         "less, training waits longer");
  c.whole("--keep-last", o.keep_last, at_least(1),
          "how many of the newest checkpoints stay; default all");
  c.whole(
      "--save-retain-interval", o.save_retain_interval, at_least(1),
      "checkpoints whose step is a multiple of N stay besides those of --keep-last; default none");
  c.text("--load", o.load, "DIR",
         "directory of checkpoints; resume from the newest good one, if there is one");
  c.whole("--ckpt-step", o.ckpt_step, at_least(0),
          "step of the checkpoint to resume from; default the newest good one");
  c.flag("--finetune", o.finetune, "load the weights only, and begin at step 0");
  c.flag_off("--no-load-optim", o.load_optimizer,
             "load no optimizer state: its moments begin at 0");
  c.flag("--use-checkpoint-args", o.use_checkpoint_args,
         "take the options of the model from the checkpoint of --load");
  c.flag("--exit-on-missing-checkpoint", o.exit_on_missing_checkpoint,
         "stop when --load has no checkpoint, rather than start from scratch");
  c.real("--exit-duration-seconds", o.exit_duration_seconds, {0, infinity, true, false},
         "save, and stop with exit code 75, so long after the start; default no limit");
}

void declare_reports(CommandLine& c, Options& o) {
  c.group("Reports and debugging");
  c.whole("--log-interval", o.log_interval, at_least(1), "steps between log lines");
  c.text("--metrics", o.metrics, "FILE",
         "file to which one JSON object is appended each step; default metrics.jsonl in --save");
  c.choice("--log-level", o.log_level, "how much is printed");
  c.text("--profile-ops", o.profile_ops, "FILE",
         "time every op of one step, into a table in the log and this JSON file");
  c.whole("--profile-step", o.profile_step, at_least(1),
          "the step that --profile-ops times; default 10, or the last of fewer");
  c.flag("--dump-plan", o.dump_plan, "print the memory plan of every stage before training");
  c.flag("--check-finite", o.check_finite,
         "stop at the first op whose output is not finite, and name it (slow)");
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
  spec.compute = options.compute();
  spec.optimizer = options.optimizer;
  spec.update = options.use_distributed_optimizer ? Update::sharded : Update::replicated;
  spec.bucket_size = options.bucket_size;
  spec.guard = options.check_finite;
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
}

void declare_evaluation(CommandLine& command, Options& options) {
  command.group("Evaluation");
  command.whole("--eval-interval", options.eval_interval, at_least(0),
                "steps between evaluations, and one at the end; 0: never");
  command.whole("--eval-iters", options.eval_iters, at_least(1),
                "global batches that an evaluation takes");
}

void settle_options(const CommandLine& command, Options& options) {
  LearningRateOptions& rate = options.learning_rate;
  if (!command.given("--schedule") && options.chunks > 1)
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
