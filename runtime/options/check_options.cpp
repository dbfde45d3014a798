// What can be wrong with options together. Each message names the options, their values and the
// nearest legal ones.
#include "runtime/options/check_options.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "trireme/core/named_values.h"
#include "trireme/pipeline/schedule.h"

#include "runtime/core/output/output_file.h"
#include "runtime/data/skipped_samples.h"

namespace trireme {

using namespace options;

namespace {

namespace fs = std::filesystem;

/// Micro-batches of a step in all stages and chunks of a pipeline: each rank goes through all of
/// them to make its part of the schedule, in a few seconds.
constexpr Index most_scheduled = Index{1} << 20;
constexpr Index most_samples = Index{1} << 60;

void check_mesh(const Options& o, Index ranks, Problems& problems) {
  const Index tp = o.tensor_size, pp = o.pipeline_size;
  if (ranks % tp == 0 && ranks / tp % pp == 0) return;
  const std::string sizes =
      str("--tensor-model-parallel-size ", tp, " x --pipeline-model-parallel-size ", pp);
  std::string mend = ranks % pp == 0 ? str("with --pp ", pp, ", --tp can be ", divisors(ranks / pp))
                     : ranks % tp == 0
                         ? str("with --tp ", tp, ", --pp can be ", divisors(ranks / tp))
                         : str("each must divide ", ranks, ": ", divisors(ranks));
  problems.add(sizes, " does not divide the ", ranks, ranks == 1 ? " rank" : " ranks",
               " of this job; ", mend, ", or start a multiple of ", tp * pp, " ranks");
}

void check_schedule(const CommandLine& command, const Options& o, Problems& problems) {
  if (o.own_schedule && command.given("--schedule"))
    problems.add("--schedule ", name(o.schedule),
                 " has no meaning in a program with a schedule of its own "
                 "(Options::own_schedule); leave it out");
}

void check_speeds(const Options& o, Problems& problems) {
  const auto speeds = static_cast<Index>(o.stage_speeds.size());
  if (speeds == 0 || speeds == o.pipeline_size) return;
  problems.add("--stage-speeds ", fmt::format("{}", fmt::join(o.stage_speeds, ",")), ": ", speeds,
               speeds == 1 ? " speed" : " speeds", " for --pipeline-model-parallel-size ",
               o.pipeline_size, "; give ", o.pipeline_size,
               o.pipeline_size == 1 ? " number" : " numbers, one for each pipeline rank",
               ", or leave the option out for equal speeds");
}

/// Whether each data rank has a share.
bool check_shares(const char* option, const DataShares& given, Index data, Problems& problems) {
  const auto shares = static_cast<Index>(given.size());
  if (shares == 0 || shares == data) return true;
  problems.add(option, " ", describe(given), ": ", shares, shares == 1 ? " share" : " shares",
               " for data parallel size ", data, "; give ", data,
               data == 1 ? " number" : " numbers, one for each data rank",
               ", or leave the option out for equal shares");
  return false;
}

/// 0 where the mesh does not exist.
Index data_size_of(const Options& o, Index ranks) {
  const Index data = o.data_size(ranks);
  return data * o.tensor_size * o.pipeline_size == ranks ? data : 0;
}

void check_optimizer_shares(const Options& o, Index ranks, Problems& problems) {
  const DataShares& shares = o.optimizer_shares;
  if (shares.empty() || o.forward_only) return;
  const std::string given = str("--optimizer-shares ", describe(shares));
  if (!o.use_distributed_optimizer)
    problems.add(given,
                 " divides what --use-distributed-optimizer divides; add that, or leave the "
                 "shares out");
  else if (sum_of_shares(shares, 0) == 0)
    problems.add(given, ": at least one share has to be more than 0");
  else if (const Index data = data_size_of(o, ranks); data > 0)
    check_shares("--optimizer-shares", shares, data, problems);
}

/// Data parallel size 4, or the sum of unequal shares.
std::string describe_parts(const Options& o, Index data, Index parts) {
  if (o.data_parallel_shares.empty()) return str("data parallel size ", data);
  return str("the sum ", parts, " of --data-parallel-shares ", describe(o.data_parallel_shares));
}

/// The pipeline of one data rank.
void check_pipeline(const Options& o, Index micro_batches, Index unit, Problems& problems) {
  const std::string wrong =
      schedule_problem(o.schedule, {static_cast<int>(o.pipeline_size), static_cast<int>(o.chunks),
                                    micro_batches, route_of(o.schedule)});
  if (!wrong.empty() && !o.own_schedule)
    problems.add("--schedule ", name(o.schedule), ", --num-virtual-stages-per-pipeline-rank ",
                 o.chunks, ": ", wrong);
  const Index stages = o.pipeline_size * o.chunks, most = most_scheduled / stages;
  if (micro_batches <= most) return;
  const bool equal = o.data_parallel_shares.empty();
  problems.add("--global-batch-size ", o.global_batch_size, " gives ",
               equal ? "each data rank " : "a data rank ", micro_batches,
               " micro-batches a step; a schedule of ", stages, stages == 1 ? " stage" : " stages",
               " has at most ", most,
               equal ? str(": a batch of at most ", most * unit) : ": a smaller batch",
               ", or a larger --micro-batch-size");
}

/// Batch and pipelines, which mean something only on a mesh that exists.
void check_batch(const Options& o, Index ranks, Problems& problems) {
  const Index data = data_size_of(o, ranks);
  if (data == 0 || !check_shares("--data-parallel-shares", o.data_parallel_shares, data, problems))
    return;
  const Index parts = sum_of_shares(o.data_parallel_shares, data);
  Index unit = 0;
  if (__builtin_mul_overflow(parts, o.micro_batch_size, &unit)) unit = most_samples;
  if (o.global_batch_size % unit != 0) {
    problems.add("--global-batch-size ", o.global_batch_size, " is not a multiple of ",
                 describe_parts(o, data, parts), " x --micro-batch-size ", o.micro_batch_size,
                 " = ", unit, "; the nearest: ", nearest_multiples(o.global_batch_size, unit));
    return;
  }
  DataShares shares = o.data_parallel_shares;
  if (shares.empty()) shares = {1};
  std::sort(shares.begin(), shares.end());
  shares.erase(std::unique(shares.begin(), shares.end()), shares.end());
  const std::size_t before = problems.all().size();
  for (auto share = shares.rbegin(); share != shares.rend(); ++share)
    if (problems.all().size() == before)  // what is wrong with several is said once
      check_pipeline(o, *share * (o.global_batch_size / unit), unit, problems);
}

/// Samples are counted from the beginning of training, or of an evaluation.
void check_samples(const Options& o, Problems& problems) {
  const std::pair<const char*, Index> counts[] = {{"--train-iters", o.train_iters},
                                                  {"--eval-iters", o.eval_iters}};
  for (const auto& [option, steps] : counts)
    if (steps > most_samples / o.global_batch_size)
      problems.add(option, " ", steps, " x --global-batch-size ", o.global_batch_size,
                   " samples are too many to count; at most ", option, " ",
                   most_samples / o.global_batch_size);
}

/// A constant rate has no decay that a warm-up could outlast.
void check_warm_up(const CommandLine& command, const Options& o, Problems& problems) {
  const LearningRateOptions& rate = o.learning_rate;
  if (rate.decay == LearningRateOptions::Decay::constant || rate.warmup_iters <= rate.decay_iters)
    return;
  if (command.given("--lr-decay-iters"))
    problems.add("--lr-warmup-iters ", rate.warmup_iters, " is more than --lr-decay-iters ",
                 rate.decay_iters, ", which includes it; at most ", rate.decay_iters);
  else
    problems.add("--lr-warmup-iters ", rate.warmup_iters, " is more than --train-iters ",
                 o.train_iters, ", the default of --lr-decay-iters, which includes it; at most ",
                 o.train_iters, ", or for a short trial of a longer run --lr-decay-iters N, the ",
                 "steps of that run");
}

void check_wsd(const CommandLine& command, const Options& o, Problems& problems) {
  const LearningRateOptions& rate = o.learning_rate;
  if (rate.decay != LearningRateOptions::Decay::wsd) {
    for (const char* option : {"--lr-wsd-decay-iters", "--lr-wsd-decay-style"})
      if (command.given(option))
        problems.add(option, " has no meaning with --lr-decay-style ", name(rate.decay),
                     "; leave it out or use --lr-decay-style WSD");
    return;
  }
  const Index most = rate.decay_iters - rate.warmup_iters;
  if (most < 0 || rate.wsd_decay_iters <= std::max<Index>(most, 1)) return;
  problems.add("--lr-wsd-decay-iters ", rate.wsd_decay_iters, " + --lr-warmup-iters ",
               rate.warmup_iters, " are more than --lr-decay-iters ", rate.decay_iters,
               command.given("--lr-decay-iters") ? "" : ", by default --train-iters",
               ", which includes both; at most --lr-wsd-decay-iters ", most);
}

/// "linear, cosine or WSD"
std::string decays_but_constant() {
  auto values = named_values<LearningRateOptions::Decay>();
  std::erase_if(
      values, [](const auto& each) { return each.second == LearningRateOptions::Decay::constant; });
  std::string text;
  for (std::size_t i = 0; i < values.size(); ++i)
    text += str(i == 0 ? "" : i + 1 == values.size() ? " or " : ", ", values[i].first);
  return text;
}

void check_learning_rate(const CommandLine& command, const Options& o, Problems& problems) {
  const LearningRateOptions& rate = o.learning_rate;
  if (rate.min_lr > rate.lr)
    problems.add("--min-lr ", rate.min_lr, " is above --lr ", rate.lr, "; at most ", rate.lr);
  if (rate.decay == LearningRateOptions::Decay::constant)
    for (const char* option : {"--min-lr", "--lr-decay-iters"})
      if (command.given(option))
        problems.add(option, " has no meaning with --lr-decay-style constant; leave it out or use ",
                     "--lr-decay-style ", decays_but_constant());
  check_warm_up(command, o, problems);
  check_wsd(command, o, problems);
}

/// An option of another optimizer would have no effect.
void check_optimizer(const CommandLine& command, const Options& o, Problems& problems) {
  const auto only_for = [&](const char* option, OptimizerOptions::Kind kind) {
    if (command.given(option) && o.optimizer.kind != kind)
      problems.add(option, " has no meaning with --optimizer ", name(o.optimizer.kind),
                   "; leave it out or use --optimizer ", name(kind));
  };
  for (const char* option : {"--adam-beta1", "--adam-beta2", "--adam-eps"})
    only_for(option, OptimizerOptions::Kind::adamw);
  only_for("--momentum", OptimizerOptions::Kind::sgd);
}

/// Options of GPUs would have no effect on a CPU.
void check_device(const CommandLine& command, const Options& o, Problems& problems) {
  for (const char* option :
       {"--ranks-per-gpu", "--serialize-communication", "--check-collectives", "--gemm-cache"})
    if (command.given(option) && o.device == DeviceOption::cpu)
      problems.add(option, " has no meaning with --device cpu; leave it out or use --device cuda");
  if (o.ranks_per_gpu > 1 && !o.serialize_communication)
    problems.add(
        "--ranks-per-gpu ", o.ranks_per_gpu,
        " needs --serialize-communication: kernels of one rank can fill the GPU and keep a "
        "collective of another from ever starting");
}

void check_profile(const CommandLine& command, const Options& o, Problems& problems) {
  if (o.profile_ops.empty()) {
    if (command.given("--profile-step"))
      problems.add("--profile-step ", o.profile_step,
                   " has no meaning without --profile-ops; add --profile-ops FILE or leave it out");
    return;
  }
  check_output("--profile-ops", o.profile_ops, outputs::profile_of_ops, problems);
  if (o.train_iters == 0)
    problems.add("--profile-ops ", o.profile_ops,
                 " needs a step, and --train-iters 0 has none; leave it out, or train");
  else if (o.profile_step > o.train_iters)
    problems.add("--profile-step ", o.profile_step, " is beyond --train-iters ", o.train_iters,
                 "; at most ", o.train_iters);
}

/// Metrics in the directory of --save, while that is not made or cannot be, are a matter of the
/// check of --save.
void check_metrics(const Options& o, Problems& problems) {
  const std::string& save = o.checkpoint.save;
  const bool in_save = !save.empty() && same_place(parent_directory(o.metrics), save);
  if (!in_save || why_not_writable(save).empty())
    check_output("--metrics", o.metrics, outputs::metrics, problems);
}

// --save, --load and the options that refine them. An option that has no effect without another
// one is an error.

/// `options` mean something only with `other`.
void check_needs(const CommandLine& command, std::initializer_list<const char*> options,
                 const char* other, const char* value, Problems& problems) {
  if (command.given(other)) return;
  for (const char* option : options)
    if (command.given(option))
      problems.add(option, " has no meaning without ", other, "; add ", other, " ", value,
                   " or leave it out");
}

void check_local(const CheckpointOptions& o, Problems& problems) {
  if (o.save_local.empty() || o.save_memory_interval == 0) return;
  if (!o.save.empty() && same_place(o.save_local, o.save))
    problems.add("--save-local ", o.save_local,
                 ": is the directory of --save; give one on a disk of each node, or leave it out");
  if (o.save_local_interval % o.save_memory_interval != 0)
    problems.add("--save-local-interval ", o.save_local_interval,
                 " is not a multiple of --save-memory-interval ", o.save_memory_interval,
                 ", whose snapshots are copied; the nearest: ",
                 nearest_multiples(o.save_local_interval, o.save_memory_interval));
}

void check_intervals(const CommandLine& command, const CheckpointOptions& o, Problems& problems) {
  if (command.given("--async-save") && command.given("--no-async-save"))
    problems.add("--async-save and --no-async-save contradict each other; keep one");
  if (o.save_interval_auto && !o.save.empty() && !command.given("--save-interval-seconds"))
    problems.add(
        "--save-interval auto: `trireme run` chooses the interval, and this job was not "
        "started by it; give a number of steps, or --save-interval-seconds X");
  if (!command.given("--save-retain-interval") || o.save.empty()) return;
  if (o.keep_last == 0)
    problems.add("--save-retain-interval ", o.save_retain_interval,
                 " has no meaning without --keep-last: every checkpoint stays; add --keep-last N "
                 "or leave it out");
  else if (o.save_interval == 0)
    problems.add("--save-retain-interval ", o.save_retain_interval,
                 " keeps multiples of a step, which only --save-interval N makes sure to save; "
                 "give it, such as --save-interval ",
                 o.save_retain_interval);
  else if (o.save_retain_interval % o.save_interval != 0)
    problems.add("--save-retain-interval ", o.save_retain_interval,
                 " is not a multiple of --save-interval ", o.save_interval,
                 ", so that some of its steps are never saved; the nearest: ",
                 nearest_multiples(o.save_retain_interval, o.save_interval));
}

/// What shows that a directory holds a checkpoint of another program, and none of ours; or "".
std::string foreign_checkpoint(const std::string& directory) {
  constexpr std::array<std::string_view, 8> names{
      "latest_checkpointed_iteration.txt",  // Megatron-LM
      "latest",                             // DeepSpeed
      "model.safetensors",                  // Hugging Face
      "model.safetensors.index.json",
      "pytorch_model.bin",
      "pytorch_model.bin.index.json",
      "ckpt.pt",     // nanoGPT
      ".metadata"};  // torch.distributed.checkpoint
  std::string found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(directory, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("step-")) return "";
    const bool foreign = name.starts_with("iter_0") || name.starts_with("global_step") ||
                         std::find(names.begin(), names.end(), name) != names.end();
    if (foreign && (found.empty() || name < found)) found = name;
  }
  return found;
}

void check_load(const CommandLine& command, const CheckpointOptions& o, Problems& problems) {
  if (o.load.empty()) return;
  std::error_code ignored;
  const bool exists = fs::exists(o.load, ignored);
  if (exists && !fs::is_directory(o.load, ignored)) {
    problems.add("--load ", o.load,
                 ": is a file; the directory of checkpoints (--save of the job "
                 "that wrote them) is needed");
  } else if (exists && access(o.load.c_str(), R_OK | X_OK) != 0) {
    problems.add("--load ", o.load, ": the directory cannot be read");
  } else if (const std::string foreign = foreign_checkpoint(o.load); !foreign.empty()) {
    const bool model = foreign.starts_with("model.safetensors");
    problems.add("--load ", o.load, ": holds ", foreign,
                 " of another program and no step of trireme; ",
                 model ? str("begin with such a model by --load-hf ", o.load,
                             ", and leave --load out, or give a directory that trireme saved to")
                       : "other checkpoints are not read, so leave --load out, or give a directory "
                         "that trireme saved to");
  } else if (!exists) {
    for (const char* option :
         {"--ckpt-step", "--finetune", "--exit-on-missing-checkpoint", "--use-checkpoint-args"})
      if (command.given(option)) {
        problems.add("--load ", o.load, ": there is no such directory, and ", option,
                     " needs a checkpoint in it");
        break;
      }
  }
  if (o.finetune && !o.save.empty() && same_place(o.save, o.load))
    problems.add("--finetune with --save and --load ", o.load,
                 ": it begins at step 0, among the steps that are there; give another --save, or "
                 "leave --finetune out to resume");
}

/// Options that say something else about the model, or about where it comes from.
void check_load_hf(const CommandLine& command, const CheckpointOptions& o, Problems& problems) {
  if (o.load_hf.empty()) return;
  for (const char* option : {"--model", "--use-checkpoint-args", "--finetune"})
    if (command.given(option))
      problems.add(option, " beside --load-hf ", o.load_hf,
                   ", which says what the model is and where it comes from; leave one of the two "
                   "options out");
}

void check_checkpoint_options(const CommandLine& command, const Options& options,
                              Problems& problems) {
  const CheckpointOptions& o = options.checkpoint;
  check_needs(command,
              {"--save-interval", "--save-interval-seconds", "--async-save", "--no-async-save",
               "--save-buffer", "--save-memory-interval", "--keep-last", "--save-retain-interval",
               "--exit-duration-seconds"},
              "--save", "DIR", problems);
  check_needs(command,
              {"--ckpt-step", "--finetune", "--no-load-optim", "--exit-on-missing-checkpoint",
               "--use-checkpoint-args"},
              "--load", "DIR", problems);
  check_needs(command, {"--save-memory-partner", "--save-local"}, "--save-memory-interval", "N",
              problems);
  check_needs(command, {"--save-local-interval"}, "--save-local", "DIR", problems);
  try {
    data::skipped_samples(o.skip_samples);
  } catch (const Error& error) {
    problems.add("--skip-samples ", error.what());
  }
  check_directory("--save", o.save, problems);
  check_intervals(command, o, problems);
  check_local(o, problems);
  check_load(command, o, problems);
  check_load_hf(command, o, problems);
}

}  // namespace

void options::check_output(const char* option, const std::string& path, const OutputKind& kind,
                           Problems& problems) {
  const std::string wrong = path.empty() ? "" : why_no_output(path, kind);
  if (!wrong.empty()) problems.add(option, " ", path, ": ", wrong);
}

void options::check_dump(const std::string& prefix, Problems& problems) {
  if (prefix.empty()) return;
  if (const std::string wrong = why_no_prefix(prefix); !wrong.empty())
    return problems.add("--dump-tensors ", prefix, ' ', wrong);
  for (const char* part : {".gradients", ".parameters"}) {
    const std::string index = str(prefix, part, ".index"), numbers = str(prefix, part, ".f32");
    const std::size_t before = problems.all().size();
    const auto check = [&](const std::string& path, const OutputKind& kind) {
      const std::string wrong = why_no_output(path, kind);
      if (!wrong.empty() && problems.all().size() == before)
        problems.add("--dump-tensors ", prefix, ": ", path, " ", wrong);
    };
    check(index, outputs::tensor_index);
    check(numbers, kind_beside(index));
  }
}

void options::check_outputs_differ(const CommandLine& command, Problems& problems) {
  const std::vector<CommandLine::NamedFile> files = command.files();
  std::set<std::pair<std::string, std::string>> said;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const auto& [option, value, path, written] = files[i];
    if (!written || is_stream(path)) continue;
    for (std::size_t j = 0; j < files.size(); ++j)
      if (files[j].option != option && (!files[j].written || j < i) &&
          same_place(path, files[j].path) && said.emplace(option, files[j].option).second)
        problems.add(option, " ", value, path == value ? "" : ": " + path,
                     " would replace the file of ", files[j].option, "; name another one");
  }
}

std::string nearest_multiples(Index value, Index step) {
  const Index below = value / step * step;
  return below < step ? str(step) : str(below, " or ", below + step);
}

std::string divisors(Index value) {
  std::string all;
  for (Index i = 1; i <= value; ++i)
    if (value % i == 0) all += str(all.empty() ? "" : ", ", i);
  return all;
}

void check_options(const CommandLine& command, const Options& options, Index ranks,
                   Problems& problems) {
  check_mesh(options, ranks, problems);
  check_schedule(command, options, problems);
  check_speeds(options, problems);
  check_batch(options, ranks, problems);
  check_optimizer_shares(options, ranks, problems);
  check_samples(options, problems);
  check_device(command, options, problems);
  check_optimizer(command, options, problems);
  check_learning_rate(command, options, problems);
  check_checkpoint_options(command, options, problems);
  check_metrics(options, problems);
  check_profile(command, options, problems);
  check_directory("--gemm-cache", options.gemm_cache, problems);
  check_dump(options.dump_tensors, problems);
  check_outputs_differ(command, problems);
}

std::string idle_options(const CommandLine& command, const Options& options, Index ranks) {
  const KeyValues values = command.configuration();
  const std::vector<const OptionDefinition*> declared = command.options();
  std::string all;
  for (std::size_t i = 0; i < declared.size(); ++i) {
    const auto& [name, value] = values[i];
    if (!command.given(name) || value == "false") continue;
    std::string why;
    if (options.forward_only && declared[i]->has(OptionUse::training))
      why = "nothing is trained";
    else if (declared[i]->traits.why_idle)
      why = declared[i]->traits.why_idle(options, ranks);
    if (why.empty()) continue;
    all += str(all.empty() ? "" : ", ", name, value == "true" ? "" : " " + value, " (", why, ")");
  }
  return all;
}

}  // namespace trireme

namespace trireme::options {

void check_directory(const char* option, const std::string& path, Problems& problems) {
  const std::string wrong = path.empty() ? "" : why_no_output_directory(path);
  const bool no_parent = wrong.starts_with("there is no directory");
  if (!wrong.empty())
    problems.add(option, " ", path, ": ", wrong,
                 no_parent ? str("; it must exist, for ", option, " makes DIR only") : "");
}

}  // namespace trireme::options
