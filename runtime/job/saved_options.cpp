#include "runtime/job/saved_options.h"

#include <filesystem>

#include "trireme/comm/agree.h"

#include "runtime/core/json.h"
#include "runtime/store/steps.h"

namespace trireme::job {
namespace {

/// Of rank 0: its problems, and the options with their origin, or null.
std::string pack(const std::optional<SavedOptions>& saved, const Problems& problems) {
  const Json::Array texts(problems.all().begin(), problems.all().end());
  if (!saved) return to_text(Json::Array{texts, Json(), Json(), Json()});
  return to_text(Json::Array{texts, saved->origin, saved->why,
                             Json::Object(saved->options.begin(), saved->options.end())});
}

const std::string& text_of(const Json& json) { return std::get<std::string>(json.value); }

std::optional<SavedOptions> unpack(const std::string& packed, Problems& problems) {
  const Json json = parse_json(packed);
  const auto& parts = std::get<Json::Array>(json.value);
  for (const Json& problem : std::get<Json::Array>(parts[0].value)) problems.add(text_of(problem));
  const auto* options = std::get_if<Json::Object>(&parts[3].value);
  if (options == nullptr) return std::nullopt;
  SavedOptions saved{{}, text_of(parts[1]), text_of(parts[2])};
  for (const auto& [name, value] : *options) saved.options.emplace_back(name, text_of(value));
  return saved;
}

}  // namespace

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
    std::optional<SavedOptions> saved;
    Problems found;
    found.collect([&] { saved = read(found); });
    packed = pack(saved, found);
  }
  packed = broadcast_text(host, packed);
  if (packed.empty() || !wanted) return std::nullopt;
  return unpack(packed, problems);
}

}  // namespace trireme::job
