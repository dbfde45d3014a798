#include "runtime/job/saved_options.h"

#include <filesystem>

#include "trireme/comm/agree.h"

#include "runtime/core/json/json_record.h"
#include "runtime/store/steps.h"

namespace trireme::job {
namespace {

/// What rank 0 has found.
struct Found {
  std::vector<std::string> problems;
  std::optional<SavedOptions> saved;
};

void describe(RecordOf<Found> auto& found, auto& member) {
  member("problems", found.problems);
  member("saved", found.saved);
}

}  // namespace

void describe(RecordOf<SavedOptions> auto& saved, auto& member) {
  member("options", saved.options);
  member("origin", saved.origin);
  member("why", saved.why);
}

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

std::optional<SavedOptions> agree_on_saved_options(
    const Host& host, bool wanted,
    const std::function<std::optional<SavedOptions>(Problems&)>& read, Problems& problems) {
  std::string packed;
  if (host.rank() == 0 && wanted) {
    Problems problems_found;
    Found found;
    problems_found.collect([&] { found.saved = read(problems_found); });
    found.problems = problems_found.all();
    packed = to_text(to_json(found));
  }
  packed = broadcast_text(host, packed);
  if (packed.empty() || !wanted) return std::nullopt;
  const auto found = from_json<Found>(parse_json(packed));
  for (const std::string& problem : found.problems) problems.add(problem);
  return found.saved;
}

}  // namespace trireme::job
