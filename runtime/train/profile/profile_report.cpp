#include "runtime/train/profile/profile_report.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "trireme/comm/agree.h"
#include "trireme/kernels/device.h"

#include "runtime/store/write/unfinished.h"

namespace trireme::train {
namespace {

Json whole_number(double x) { return Json(static_cast<Index>(std::llround(x))); }

/// The effective value of an option that not every program has; null without it.
Json option(const Context& context, const char* name) {
  for (const auto& [option, value] : context.configuration())
    if (option == name && !value.empty()) return Json(value);
  return {};
}

Json number_option(const Context& context, const char* name) {
  const Json value = option(context, name);
  const auto* text = std::get_if<std::string>(&value.value);
  return text == nullptr ? Json() : parse_json(*text);
}

Json number_or_null(const std::optional<double>& number) {
  if (!number) return {};
  return *number;
}

Json names_of(const StepRow& row) {
  Json::Array names;
  for (const std::string& name : row.names) names.emplace_back(name);
  return names;
}

Json row_json(const StepRow& row, const StepProfile::Times* times, const ProfiledStep* profiled) {
  Json ms, operations, limit;
  if (times != nullptr) {
    ms = times->seconds * 1e3;
    if (times->operations > 0) operations = times->operations;
    limit = profiled->limits.seconds(row) * 1e3;
  }
  return Json::Object{{"op", row.op},
                      {"phase", name(row.phase)},
                      {"names", names_of(row)},
                      {"calls", row.calls},
                      {"ms", ms},
                      {"bytes", whole_number(row.bytes)},
                      {"flops", whole_number(row.flops)},
                      {"operations", operations},
                      {"limit_ms", limit}};
}

double number(const Json& object, const char* key) {
  const Json* found = object.find(key);
  if (found == nullptr) return 0;
  if (const auto* whole = std::get_if<Index>(&found->value)) return static_cast<double>(*whole);
  const auto* real = std::get_if<double>(&found->value);
  return real == nullptr ? 0 : *real;
}

std::string text(const Json& object, const char* key) {
  return std::get<std::string>(object.find(key)->value);
}

/// Nothing if the share has no meaning.
std::string percent(double part, double whole) {
  return part > 0 && whole > 0 ? fmt::format("{:.1f}", 100 * part / whole) : "";
}

std::string table_line(const Json& row, double all_ms) {
  const double ms = number(row, "ms"), s = ms / 1e3, bytes = number(row, "bytes");
  const double flops = number(row, "flops");
  const auto rate = [&](double amount, double unit) {
    return amount > 0 && s > 0 ? fmt::format("{:.1f}", amount / unit / s) : "";
  };
  return fmt::format("{:<22} {:<9} {:>7} {:>10.3f} {:>6} {:>9} {:>9} {:>7}\n", text(row, "op"),
                     text(row, "phase"), number(row, "calls"), ms, percent(ms, all_ms),
                     rate(bytes, 1e9), rate(flops, 1e9), percent(number(row, "limit_ms"), ms));
}

std::string stage_table(const Json& profile) {
  const double device_ms = number(profile, "device_ms"), wall_ms = number(profile, "wall_ms");
  std::string out = fmt::format(
      "profile of step {}, stage {} of {}, {}\n{:<22} {:<9} {:>7} {:>10} {:>6} {:>9} {:>9} {:>7}\n",
      number(profile, "step"), number(profile, "stage"), number(profile, "pipeline_size"),
      text(profile, "device"), "op", "phase", "calls", "ms", "%", "GB/s", "GFLOP/s", "% limit");
  std::vector<Json> rows = std::get<Json::Array>(profile.find("rows")->value);
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Json& a, const Json& b) { return number(a, "ms") > number(b, "ms"); });
  for (const Json& row : rows) out += table_line(row, device_ms);
  out += fmt::format(
      "all rows {:.3f} ms; the step {:.3f} ms by the host's clock, {:.3f} ms of it "
      "outside of them",
      device_ms, wall_ms, wall_ms - device_ms);
  if (const double before = number(profile, "wall_ms_before"); before > 0)
    out += fmt::format("; the step before, without events, {:.3f} ms", before);
  return out + fmt::format(
                   "\nlimits: copies {:.1f} GB/s, products {:.1f} GFLOP/s, measured before "
                   "the first step",
                   number(profile, "copy_bytes_per_s") / 1e9,
                   number(profile, "product_flops_per_s") / 1e9);
}

}  // namespace

double DeviceLimits::seconds(const StepRow& row) const {
  const double products = product_flops_per_s > 0 ? row.flops / product_flops_per_s : 0;
  return std::max(row.bytes / copy_bytes_per_s, products);
}

DeviceLimits measure_limits(const Context& context) {
  return {measure_copy_rate(context.stream()),
          measure_gemm_flops(context.stream(), context.options().compute())};
}

Json profile_json(const StepTable& table, const Context& context, const ProfiledStep* profiled) {
  const Mesh& mesh = context.mesh();
  Json::Array rows;
  double device_s = 0;
  for (std::size_t r = 0; r < table.rows().size(); ++r) {
    const StepProfile::Times* times = profiled == nullptr ? nullptr : &profiled->times[r];
    if (times != nullptr) device_s += times->seconds;
    rows.push_back(row_json(table.rows()[r], times, profiled));
  }
  Json::Object all{{"device", context.device().describe()},
                   {"model", option(context, "--model")},
                   {"micro_batch", context.options().micro_batch_size},
                   {"sequence", number_option(context, "--seq-length")},
                   {"micro_batches", context.micro_batches()},
                   {"step", profiled == nullptr ? Json() : Json(profiled->step)},
                   {"compute", name(context.options().compute())},
                   {"stage", mesh.coordinate(Role::stage)},
                   {"pipeline_size", mesh.shape().size(Role::stage)}};
  if (profiled != nullptr) {
    all.insert(all.end(), {{"device_ms", device_s * 1e3},
                           {"wall_ms", profiled->wall_ms},
                           {"wall_ms_before", number_or_null(profiled->wall_ms_before)},
                           {"copy_bytes_per_s", profiled->limits.copy_bytes_per_s},
                           {"product_flops_per_s", profiled->limits.product_flops_per_s}});
  }
  all.emplace_back("rows", std::move(rows));
  return all;
}

std::string profile_table(const Json& profile) {
  const Json* stages = profile.find("stages");
  if (stages == nullptr) return stage_table(profile);
  std::string all;
  for (const Json& stage : std::get<Json::Array>(stages->value)) all += stage_table(stage) + '\n';
  all.pop_back();
  return all;
}

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
  if (plan.coordinate(Role::layers) != 0) return nullptr;
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
