// Options that every training program has, with their defaults. A program adds its own
// (options/gpt_options.h); no option is silently ignored. docs/reference/options.md is the table
// for people.
#pragma once

#include <string>
#include <vector>

#include "trireme/core/log.h"
#include "trireme/core/mesh_shape.h"
#include "trireme/kernels/instruction_set.h"
#include "trireme/optim/learning_rate_options.h"
#include "trireme/optim/optimizer_options.h"
#include "trireme/options/checkpoint_options.h"
#include "trireme/options/command_line.h"
#include "trireme/pipeline/schedule_kind.h"
#include "trireme/pipeline/work.h"
#include "trireme/rank_plan/micro_batches.h"

namespace trireme {

struct TrainingSpec;  // plan/training_spec.h

/// auto: GPUs where all ranks have one, else the CPU.
enum class DeviceOption { automatic, cpu, cuda };
const char* name(DeviceOption device);

struct Options {
  // Parallelism. The data parallel size is what is left: ranks / tensor / pipeline.
  Index tensor_size = 1;
  Index pipeline_size = 1;
  Index chunks = 1;  // virtual stages per pipeline rank
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  ScheduleFunction own_schedule;  // no option: a program sets it, and it replaces `schedule`
  bool use_distributed_optimizer = false;
  Index bucket_size = Index{1} << 20;  // parameters per gradient bucket
  Index threads_per_rank = 1;
  DataShares data_parallel_shares;  // shares of micro-batches; empty: equal
  DataShares optimizer_shares;  // shares of a distributed optimizer, some may be 0; empty: equal
  std::vector<double> stage_speeds;  // one per pipeline rank, relative to each other; empty: equal

  // Device.
  DeviceOption device = DeviceOption::automatic;
  InstructionSet instruction_set = InstructionSet::best;  // used on CPUs
  Index ranks_per_gpu = 1;
  bool serialize_communication = false;
  bool check_collectives = false;  // on GPUs; on by default in a Debug build of trireme
  std::string gemm_cache;  // directory of choices for matrix products; empty: nothing is timed

  // Batch and length of training.
  Index micro_batch_size = 1;   // samples
  Index global_batch_size = 8;  // samples
  Index train_iters = 100;
  bool forward_only = false;  // nothing is trained or saved; train_iters is then 0
  Index seed = 1234;
  std::vector<std::string> freeze;  // parts of the model that are not trained
  bool bf16 = false;  // weights and activations of the computation; masters and sums stay f32

  OptimizerOptions optimizer;
  LearningRateOptions learning_rate;
  Index max_skipped = 10;      // steps in a row
  Index check_replicas = 100;  // steps between comparisons of the data replicas; 0: never
  Index verify_step = 0;       // steps between those that are computed twice; 0: never
  CheckpointOptions checkpoint;

  // Evaluation; declared by programs that have validation data.
  Index eval_interval = 0;  // steps; 0: never
  Index eval_iters = 10;    // global batches

  // Reports and debugging.
  Index log_interval = 10;
  std::string metrics;  // file of JSON lines
  LogLevel log_level = LogLevel::info;
  std::string profile_ops;  // file of JSON; empty: no step is profiled
  Index profile_step = 10;
  bool dump_plan = false;
  bool plan_only = false;  // run() then starts nothing: the Trainer only plans
  bool check_finite = false;
  std::string dump_tensors;  // prefix of files

  DType compute() const { return bf16 ? DType::bf16 : DType::f32; }
  Index data_size(Index ranks) const { return ranks / (tensor_size * pipeline_size); }
  /// Micro-batches that a data rank runs per step.
  Index micro_batches(Index data_size, Index data_rank) const {
    return micro_batches_of(global_batch_size / micro_batch_size, data_parallel_shares, data_size,
                            data_rank)
        .count;
  }
};

/// The options that planning needs, for ranks in this mesh.
TrainingSpec training_spec(const Options& options, const MeshShape& mesh);

void declare_options(CommandLine& command, Options& options);
void declare_evaluation(CommandLine& command, Options& options);

/// Sets defaults that depend on other options, after parsing: the schedule of several virtual
/// stages, the length of the decay, and where metrics go.
void derive_defaults(const CommandLine& command, Options& options);

/// Reports combinations of options that cannot run on `ranks` ranks, each with the nearest legal
/// values.
void check_options(const CommandLine& command, const Options& options, Index ranks,
                   Problems& problems);

/// "4 or 8": the multiples of `step` (>= step) next to a value, for messages.
std::string nearest_multiples(Index value, Index step);
/// "1, 2, 4, 8"
std::string divisors(Index value);

}  // namespace trireme
