#include "runtime/train/profile/training_profile.h"

#include "trireme/comm/agree.h"

#include "runtime/store/write/unfinished.h"

namespace trireme::train {
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
  try {
    write_output(path, to_text(profile) + '\n', outputs::profile_of_ops);
  } catch (const Error& error) {
    throw Error(str("--profile-ops ", error.what()));
  }
}

}  // namespace

std::unique_ptr<TrainingProfile> plan_profile(const Context& context, const PlannedTraining& plan) {
  if (context.options().profile_ops.empty()) return nullptr;
  const DeviceLimits limits = measure_limits(context);
  if (plan.coordinate(Axis::data) != 0 || plan.coordinate(Axis::tensor) != 0) return nullptr;
  return std::make_unique<TrainingProfile>(TrainingProfile{
      StepProfile(StepTable(plan.train.model(), plan.train.program(), plan.flat, context),
                  context.stream()),
      limits});
}

void report_profile(const Context& context, TrainingProfile* profile, const StepMetrics& metrics,
                    std::optional<double> ms_of_step_before) {
  std::string mine;
  if (profile != nullptr) {
    StepProfile& steps = profile->steps;
    steps.end();
    const ProfiledStep profiled{metrics.step, steps.times(), profile->limits, metrics.step_ms,
                                ms_of_step_before};
    mine = to_text(profile_json(steps.table(), context, &profiled));
  }
  const std::vector<std::string> stages = gather_strings(context.host(), mine);
  agree_or_stop(context.host(), [&] {
    if (context.host().rank() != 0) return;
    const Json whole = whole_profile(stages);
    write_profile(context.options().profile_ops, whole);
    context.log().result(profile_table(whole));
  });
}

}  // namespace trireme::train
