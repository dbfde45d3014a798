// Continues options/check_options.h. What can be wrong with --save, --load and the options that
// refine them. An option that has no effect without another one is an error.
#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>

#include <unistd.h>

#include "runtime/core/output/output_file.h"
#include "runtime/data/skipped_samples.h"
#include "runtime/options/check_options.h"

namespace trireme::options {
namespace {

namespace fs = std::filesystem;

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

}  // namespace

void check_directory(const char* option, const std::string& path, Problems& problems) {
  const std::string wrong = path.empty() ? "" : why_no_output_directory(path);
  const bool no_parent = wrong.starts_with("there is no directory");
  if (!wrong.empty())
    problems.add(option, " ", path, ": ", wrong,
                 no_parent ? str("; it must exist, for ", option, " makes DIR only") : "");
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

}  // namespace trireme::options
