// Which steps a path names, what state they are in, and what may be deleted.
#include "runtime/store/inspect/inspect.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "trireme/core/error.h"

#include "runtime/store/file.h"
#include "runtime/store/lease/lease.h"
#include "runtime/store/lease/lock_file.h"
#include "runtime/store/read/reader.h"
#include "runtime/store/steps.h"
#include "runtime/store/tiers/time_line.h"

namespace trireme {

using namespace store;

namespace {

namespace fs = std::filesystem;

/// The last name of a path, whether or not it ends with '/'.
std::string last_name(const std::string& path) {
  const fs::path normal = fs::path(path).lexically_normal();
  return (normal.has_filename() ? normal : normal.parent_path()).filename().string();
}

bool is_directory(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

bool is_step_directory(const std::string& path) {
  std::error_code ignored;
  return parse_step_name(last_name(path)) || fs::exists(path + "/" + manifest_name, ignored);
}

std::string numbers_of(const std::vector<CommittedStep>& steps) {
  constexpr std::size_t most = 10;
  std::string all;
  for (std::size_t i = 0; i < std::min(most, steps.size()); ++i)
    all += str(all.empty() ? "" : ", ", steps[i].step);
  return steps.size() > most ? str(all, " and ", steps.size() - most, " older ones") : all;
}

Index bytes_in(const std::string& directory) {
  Index bytes = 0;
  std::error_code failure;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, failure)) {
    const auto size = entry.file_size(failure);
    if (!failure) bytes += static_cast<Index>(size);
  }
  return bytes;
}

StepSummary summarize(const CommittedStep& step) {
  StepSummary summary{step.step, step.path, bytes_in(step.path), "", "", "", "", 0};
  try {
    const Manifest manifest = open_step(step.path).manifest;
    summary.created = manifest.created;
    summary.run = manifest.run;
    summary.layout = manifest.layout;
    summary.verified = manifest.verified;
    summary.verified_step = manifest.verified_step;
    summary.shards = std::count_if(manifest.files.begin(), manifest.files.end(),
                                   [](const auto& file) { return file.name != global_name; });
    read_manifest(step.path);
  } catch (const Error& error) {
    summary.problem = error.what();
  }
  return summary;
}

std::optional<Writer> writer_of(const std::string& root) {
  const std::string lock = root + "/lock";
  std::error_code ignored;
  if (!fs::exists(lock, ignored)) return std::nullopt;
  constexpr Index most_bytes = Index{1} << 16;
  const std::optional<LeaseHolder> holder = parse_lease_holder(read_whole(lock, most_bytes));
  if (!holder) return Writer{"?", "?", "?", 0, false};
  return Writer{holder->host, holder->run, holder->since, holder->pid, holder->certainly_gone()};
}

/// What jobs make in the directory of a run, and `trireme run`.
bool is_of_a_run(const std::string& name) {
  return parse_step_name(name) || name == "lock" || is_left_of_lock(name) ||
         name == "metrics.jsonl" || name == "supervisor" || name == store::time_line_name;
}

/// `text` with every `part` taken out.
std::string without(std::string text, const std::string& part) {
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at))
    text.erase(at, part.size());
  return text;
}

/// What HDF5 finds in the shards of a step whose checksums held.
std::vector<std::string> structure_problems(const std::string& directory,
                                            const Manifest& manifest) {
  std::vector<std::vector<Piece>> pieces(manifest.files.size());
  for (const Manifest::Tensor& tensor : manifest.tensors)
    for (const Manifest::Stored& stored : tensor.pieces)
      pieces[static_cast<std::size_t>(stored.file)].push_back({.tensor = tensor.name,
                                                               .dtype = tensor.dtype,
                                                               .global = tensor.global,
                                                               .box = stored.box,
                                                               .offset = stored.offset});
  std::vector<std::string> problems;
  for (std::size_t i = 0; i < manifest.files.size(); ++i) {
    const std::string& name = manifest.files[i].name;
    if (name == global_name) continue;  // a view for people, without pieces
    const std::string problem = structure_problem(str(directory, '/', name), pieces[i]);
    if (!problem.empty()) problems.push_back(str(name, ": ", problem));
  }
  return problems;
}

}  // namespace

std::vector<CommittedStep> find_steps(const std::string& path, Index step) {
  require(is_directory(path), path, ": no such directory");
  if (is_step_directory(path)) {
    const std::optional<StepEntry> named = parse_step_name(last_name(path));
    const Index number = named ? named->step : open_step(path).manifest.step;
    require(step < 0 || step == number, path, " is step ", number, ", not ", step,
            "; name the directory of the run to choose another");
    return {{number, path}};
  }
  std::vector<CommittedStep> steps = list_steps(path);
  require(!steps.empty(), path, " holds no committed step (a directory like ", step_name(0), ")");
  if (step < 0) return steps;
  const auto found = std::find_if(steps.begin(), steps.end(),
                                  [&](const CommittedStep& each) { return each.step == step; });
  require(found != steps.end(), path, " holds no step ", step, "; it holds ", numbers_of(steps));
  return {*found};
}

OpenedStep open_step(const std::string& directory) {
  const std::string path = directory + "/" + manifest_name;
  const std::string text = read_whole(path, JsonLimits{}.text_bytes);
  try {
    return {directory, parse_manifest(text)};
  } catch (const Error& error) {
    throw Error(str(path, ": ", error.what()));
  }
}

std::vector<TensorTotal> totals_of(const Manifest& manifest) {
  std::map<std::string, TensorTotal> groups;
  TensorTotal all{"all", 0, 0, 0};
  for (const Manifest::Tensor& tensor : manifest.tensors) {
    const std::string group = tensor.name.substr(0, tensor.name.find('/'));
    for (TensorTotal* total : {&groups[group], &all}) {
      ++total->tensors;
      total->elements += tensor.global.count();
      total->bytes += tensor.global.count() * size_bytes(tensor.dtype);
    }
    groups[group].group = group;
  }
  std::vector<TensorTotal> totals;
  for (const auto& [group, total] : groups) totals.push_back(total);
  totals.push_back(all);
  return totals;
}

Index RunSummary::bytes() const {
  Index total = 0;
  for (const StepSummary& step : steps) total += step.bytes;
  return total;
}

bool RunSummary::holds() const {
  return std::all_of(steps.begin(), steps.end(),
                     [](const StepSummary& step) { return step.problem.empty(); });
}

RunSummary summarize_run(const std::string& root) {
  require(is_directory(root), root, ": no such directory");
  require(!is_step_directory(root), root,
          " is one step; name the directory of the run, or show this step with `trireme checkpoint "
          "show`");
  const std::vector<std::string> names = list_directory(root);
  require(names.empty() || std::any_of(names.begin(), names.end(), is_of_a_run), root,
          " is no directory of a run (--save): it holds ", names.empty() ? "" : names.front(),
          names.size() > 1 ? str(" and ", names.size() - 1, " more") : "",
          ", but no directory like ", step_name(0), ", no lock and no metrics.jsonl");
  RunSummary run;
  run.root = root;
  for (const CommittedStep& step : list_steps(root)) run.steps.push_back(summarize(step));
  for (const std::string& name : names) {
    const std::optional<StepEntry> entry = parse_step_name(name);
    if (!entry || entry->state.empty()) continue;
    (entry->state == "tmp"     ? run.unfinished
     : entry->state == "aside" ? run.set_aside
                               : run.cut_off)
        .push_back(name);
  }
  run.writer = writer_of(root);
  return run;
}

std::vector<std::string> step_problems(const std::string& step_directory, int threads,
                                       const std::function<void(Index, Index)>& progress) {
  std::vector<std::string> problems;
  try {
    const Manifest manifest = open_step(step_directory).manifest;
    const std::optional<StepEntry> named = parse_step_name(last_name(step_directory));
    if (named && named->step != manifest.step)
      problems.push_back(str(manifest_name, ": is of step ", manifest.step));
    for (std::string& each : verify_step(step_directory, manifest, threads, progress))
      problems.push_back(std::move(each));
    if (problems.empty()) problems = structure_problems(step_directory, manifest);
  } catch (const Error& error) {
    problems.push_back(error.what());
  }
  const std::string place = step_directory + "/";
  for (std::string& problem : problems) problem = without(problem, place);
  return problems;
}

namespace {

/// The newest that was verified clean, and the newest up to `verified_step`.
std::vector<Index> verified_steps(const RunSummary& run, Index verified_step) {
  const auto newest = [&](const auto& holds) -> std::vector<Index> {
    for (const StepSummary& step : run.steps)
      if (step.problem.empty() && holds(step)) return {step.step};
    return {};
  };
  std::vector<Index> steps = newest([](const StepSummary& step) { return !step.verified.empty(); });
  for (const Index step :
       newest([&](const StepSummary& each) { return each.step <= verified_step; }))
    steps.push_back(step);
  return steps;
}

}  // namespace

PrunePlan plan_prune(const std::string& root, const Retention& retention) {
  const RunSummary run = summarize_run(root);
  PrunePlan plan;
  plan.leftovers = run.unfinished;
  plan.leftovers.insert(plan.leftovers.end(), run.cut_off.begin(), run.cut_off.end());
  std::vector<Index> counted;  // as in prune_steps()
  Index verified_step = -1;    // as the newest say
  for (const StepSummary& step : run.steps) {
    const bool recent = static_cast<Index>(counted.size()) < retention.keep_last;
    if (recent && step.problem.empty()) verified_step = std::max(verified_step, step.verified_step);
    if (!recent || step.problem.empty()) counted.push_back(step.step);
  }
  plan.deleted = steps_to_delete(counted, retention, verified_steps(run, verified_step));
  for (const StepSummary& step : run.steps) {
    if (std::count(plan.deleted.begin(), plan.deleted.end(), step.step) > 0) {
      plan.bytes += step.bytes;
      continue;
    }
    plan.kept.push_back(step.step);
    if (!step.problem.empty()) plan.damaged.push_back(step.problem);
  }
  return plan;
}

}  // namespace trireme
