#include "runtime/job/saved_options.h"

#include <filesystem>

#include "runtime/store/steps.h"

namespace trireme {

std::optional<SavedOptions> read_saved_options(const CheckpointOptions& options,
                                               Problems& problems) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(options.load, ignored)) return std::nullopt;
  const std::string title = "--use-checkpoint-args: --load " + options.load;
  std::vector<CommittedStep> steps;
  const std::size_t before = problems.all().size();
  problems.collect([&] { steps = list_steps(options.load); });
  if (problems.all().size() > before) return std::nullopt;
  std::string reasons;
  for (const CommittedStep& step : steps) {
    if (options.ckpt_step >= 0 && step.step != options.ckpt_step) continue;
    try {
      return SavedOptions{read_manifest(step.path).options,
                          str("step ", step.step, " of ", options.load)};
    } catch (const Error& error) {
      if (reasons.empty()) reasons = error.what();
    }
  }
  if (!reasons.empty())
    problems.add(title, ": no step can be read: ", reasons);
  else if (options.ckpt_step >= 0)
    problems.add(title, " has no step ", options.ckpt_step, " of --ckpt-step");
  else
    problems.add(title, " has no checkpoint to take the model from; give the model's options");
  return std::nullopt;
}

}  // namespace trireme
