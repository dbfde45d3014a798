// Continues Trainer::State (train/trainer_state.h).
// --profile-ops: one rank of each pipeline stage profiles one step, and rank 0 writes them all.
#include <fstream>

#include "trireme/comm/agree.h"

#include "runtime/train/trainer_state.h"

namespace trireme {
namespace {

/// One object for a single stage, else what they share and a list of theirs.
Json whole_profile(const std::vector<std::string>& stages) {
  Json::Array all;
  for (const std::string& stage : stages)
    if (!stage.empty()) all.push_back(parse_json(stage));
  if (all.size() == 1) return all.front();
  Json::Object whole;
  for (const auto& [key, value] : std::get<Json::Object>(all.front().value))
    if (key == "device" || key == "model" || key == "micro_batch" || key == "sequence" ||
        key == "micro_batches" || key == "step")
      whole.emplace_back(key, value);
  whole.emplace_back("stages", std::move(all));
  return whole;
}

void write_profile(const std::string& path, const Json& profile) {
  std::ofstream file(path);
  file << to_text(profile) << '\n';
  file.close();
  require(file.good(), "--profile-ops ", path, ": the file cannot be written");
}

}  // namespace

void Trainer::State::plan_profile() {
  if (context.options().profile_ops.empty()) return;
  limits = measure_limits(context);
  if (context.mesh().coordinate(Axis::data) != 0 || context.mesh().coordinate(Axis::tensor) != 0)
    return;
  profile = std::make_unique<StepProfile>(
      StepTable(train->model(), train->program(), *flat, context), context.stream());
}

void Trainer::State::start_micro_batches(bool profiled) {
  if (!profiled || !profile) return train->start(*train_inputs);
  ProfiledBatch batch(*train_inputs, *profile);
  train->start(batch);
}

void Trainer::State::report_profile(Index step, double step_ms) {
  std::string mine;
  if (profile) {
    profile->end();
    const ProfiledStep profiled{step, profile->times(), limits, step_ms, last_step_ms};
    mine = to_text(profile_json(profile->table(), context, &profiled));
  }
  const std::vector<std::string> stages = gather_strings(context.host(), mine);
  agree_or_stop(context.host(), [&] {
    if (context.host().rank() != 0) return;
    const Json whole = whole_profile(stages);
    write_profile(context.options().profile_ops, whole);
    context.log().line(profile_table(whole));
  });
}

}  // namespace trireme
