// How a step is committed and read. docs/concepts/checkpoints.md lists every point at which this
// can be interrupted.
#include "runtime/store/steps.h"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>

#include "trireme/core/error.h"

#include "runtime/core/parse_number.h"
#include "runtime/store/file.h"
#include "runtime/store/read/block_reader.h"

namespace trireme {

using namespace store;

namespace {

/// Enough for the manifest of a checkpoint of 7 TB.
constexpr Index manifest_limit_bytes = Index{256} << 20;

void check_sizes(const std::string& directory, const Manifest& manifest) {
  for (std::size_t i = 0; i < manifest.files.size(); ++i) {
    const Manifest::File& file = manifest.files[i];
    const std::string problem = size_problem(directory, file);
    if (problem.empty()) continue;
    throw Error(str(directory, '/', file.name, ": ", problem,
                    tensors_at(manifest, static_cast<int>(i), 0, file.bytes)));
  }
}

/// Gives the finished directory its name. Where a step of that number was before: it is exchanged
/// in one instant; or moved out of the way first where the file system cannot, and
/// clean_leftovers() moves it back after a crash in between. Returns where the step before is now,
/// "" when there was none.
std::string give_name(const std::string& root, const Manifest& manifest) {
  std::string unfinished = unfinished_path(root, manifest.step, manifest.run);
  const std::string committed = step_path(root, manifest.step);
  if (!is_there(committed)) {
    rename_path(unfinished, committed);
    return "";
  }
  if (exchange_paths(unfinished, committed)) return unfinished;
  std::string replaced = step_path(root, manifest.step, "replaced", manifest.run);
  rename_path(committed, replaced);
  try {
    rename_path(unfinished, committed);
  } catch (const Error&) {
    rename_path(replaced, committed);
    throw;
  }
  return replaced;
}

/// After a commit whose durability is unknown: restores the previous state.
void take_name_back(const std::string& root, const Manifest& manifest, const std::string& before) {
  const std::string unfinished = unfinished_path(root, manifest.step, manifest.run);
  const std::string committed = step_path(root, manifest.step);
  if (before == unfinished) {
    exchange_paths(unfinished, committed);
    return;
  }
  rename_path(committed, unfinished);
  if (!before.empty()) rename_path(before, committed);
}

/// The new step is committed already: what is left of the one before then waits for
/// clean_leftovers().
void delete_replaced(const std::string& root, const Manifest& manifest, const std::string& before) {
  try {
    const std::string deleted = step_path(root, manifest.step, "deleted", manifest.run);
    rename_path(before, deleted);
    remove_tree(root, deleted);
  } catch (const Error&) {
  }
}

}  // namespace

std::vector<CommittedStep> list_steps(const std::string& root) {
  std::vector<CommittedStep> steps;
  if (!is_there(root)) return steps;
  for (const std::string& name : list_directory(root)) {
    const auto entry = parse_step_name(name);
    if (entry && entry->state.empty()) steps.push_back({entry->step, str(root, '/', name)});
  }
  std::sort(steps.begin(), steps.end(),
            [](const CommittedStep& a, const CommittedStep& b) { return a.step > b.step; });
  return steps;
}

Manifest read_manifest(const std::string& step_directory) {
  const std::string path = step_directory + '/' + manifest_name;
  const std::string text = read_whole(path, manifest_limit_bytes);
  Manifest manifest;
  try {
    manifest = parse_manifest(text);
  } catch (const Error& error) {
    throw Error(str(path, ": ", error.what()));
  }
  const auto entry = parse_step_name(std::filesystem::path(step_directory).filename().string());
  require(!entry || entry->step == manifest.step, path, ": is of step ", manifest.step,
          ", but its directory is called ", step_directory);
  check_sizes(step_directory, manifest);
  return manifest;
}

void commit_step(const std::string& root, const Manifest& manifest) {
  const std::string unfinished = unfinished_path(root, manifest.step, manifest.run);
  sync_directory(unfinished);  // the files are durable, and now their names
  write_whole(unfinished + '/' + manifest_name, to_text(manifest));
  sync_directory(unfinished);
  read_manifest(unfinished);
  const std::string before = give_name(root, manifest);
  try {
    sync_directory(root);
  } catch (const Error&) {
    take_name_back(root, manifest, before);
    throw;
  }
  if (!before.empty()) delete_replaced(root, manifest, before);
}

void discard_step(const std::string& root, Index step, const std::string& run) {
  remove_tree(root, unfinished_path(root, step, run));
}

std::vector<std::string> set_aside_newer(const std::string& root, Index step,
                                         const std::string& run) {
  std::vector<std::string> names;
  for (const CommittedStep& newer : list_steps(root)) {
    if (newer.step <= step) break;
    const std::string aside = step_path(root, newer.step, "aside", run);
    rename_path(newer.path, aside);
    names.push_back(std::filesystem::path(aside).filename().string());
  }
  if (!names.empty()) sync_directory(root);
  return names;
}

std::string describe_set_aside(const std::string& root, const std::vector<std::string>& names) {
  if (names.size() == 1) return str("set aside ", root, '/', names.front());
  return str("set aside ", names.size(), " checkpoints of ", root, ", ", names.back(), " to ",
             names.front());
}

}  // namespace trireme

namespace trireme::store {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = "step-";

void remove_with_content(const std::string& path) {
  for (const std::string& name : list_directory(path)) {
    const std::string child = str(path, '/', name);
    std::error_code ignored;
    if (fs::symlink_status(child, ignored).type() == fs::file_type::directory)
      remove_with_content(child);
    else
      remove_file(child);
  }
  remove_directory(path);
}

}  // namespace
}  // namespace trireme::store

std::string trireme::step_name(Index step) {
  require(step >= 0, "a step is not negative, but ", step);
  return fmt::format("{}{:06}", store::prefix, step);
}

std::string trireme::unfinished_path(const std::string& root, Index step, const std::string& run) {
  return store::step_path(root, step, "tmp", run);
}

namespace trireme::store {

std::optional<StepEntry> parse_step_name(std::string_view name) {
  const std::string_view number = name.substr(0, name.find('.'));
  if (!number.starts_with(prefix)) return {};
  const auto step = parse_number<Index>(number.substr(prefix.size()));
  if (!step || *step < 0 || step_name(*step) != number) return {};
  if (number.size() == name.size()) return StepEntry{*step, ""};
  const std::string_view rest = name.substr(number.size() + 1);
  const std::string_view state = rest.substr(0, rest.find('-'));
  for (const char* known : {"tmp", "deleted", "replaced", "aside"})
    if (state == known && state.size() + 1 < rest.size()) return StepEntry{*step, known};
  return {};
}

std::string step_path(const std::string& root, Index step) { return root + '/' + step_name(step); }

std::string step_path(const std::string& root, Index step, const char* state,
                      const std::string& run) {
  require(!run.empty() && run.find('/') == std::string::npos, "\"", run,
          "\" cannot be the id of a run: it becomes part of file names");
  return fmt::format("{}.{}-{}", step_path(root, step), state, run);
}

bool is_there(const std::string& path) {
  std::error_code ignored;
  return fs::symlink_status(path, ignored).type() != fs::file_type::not_found;
}

void remove_tree(const std::string& root, const std::string& path) {
  if (!is_there(path)) return;
  sync_directory(root);
  remove_with_content(path);
}

}  // namespace trireme::store
