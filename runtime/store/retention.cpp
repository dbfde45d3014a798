// Implements Retention (steps.h). Which steps are deleted, and how: a step first loses its name,
// durably, and then its files, so that no partial step ever has a name. Also removes what
// interrupted saves and deletions leave.
#include <algorithm>
#include <optional>

#include "trireme/core/error.h"

#include "runtime/store/file.h"
#include "runtime/store/lease/lock_file.h"
#include "runtime/store/step_names.h"
#include "runtime/store/steps.h"

namespace trireme {

using namespace store;

namespace {

constexpr const char* by_retention = "retention";  // in the place of a run's id

/// Nothing when it cannot be read.
std::optional<Manifest> manifest_of(const CommittedStep& step) {
  try {
    return read_manifest(step.path);
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// Restores the name of a step that was moved away for a new one, which was never committed.
bool restored(const std::string& root, const std::string& path, Index step) {
  const std::string committed = step_path(root, step);
  if (is_there(committed)) return false;
  rename_path(path, committed);
  return true;
}

/// A late rank of a killed job may still write files there. Then the directory is removed at the
/// next start.
bool removed(const std::string& root, const std::string& path) {
  try {
    remove_tree(root, path);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::vector<Index> steps_to_delete(const std::vector<Index>& steps, const Retention& retention,
                                   Index verified) {
  std::vector<Index> out;
  if (retention.keep_last <= 0) return out;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const bool recent = static_cast<Index>(i) < retention.keep_last;
    const bool retained =
        retention.retain_interval > 0 && steps[i] % retention.retain_interval == 0;
    if (!recent && !retained && steps[i] != verified) out.push_back(steps[i]);
  }
  return out;
}

void delete_step(const std::string& root, Index step) {
  const std::string deleted = step_path(root, step, "deleted", by_retention);
  remove_tree(root, deleted);  // of a deletion that was cut off
  rename_path(step_path(root, step), deleted);
  remove_tree(root, deleted);
}

std::vector<Index> prune_steps(const std::string& root, const Retention& retention) {
  if (retention.keep_last <= 0) return {};
  // Only steps that can be read back count as kept; the others stay, for people to look at.
  std::vector<Index> steps;
  Index verified = -1;
  for (const CommittedStep& step : list_steps(root)) {
    const bool counts = static_cast<Index>(steps.size()) < retention.keep_last;
    const std::optional<Manifest> manifest =
        counts || verified < 0 ? manifest_of(step) : std::nullopt;
    if (!counts || manifest) steps.push_back(step.step);
    if (verified < 0 && manifest && !manifest->verified.empty()) verified = step.step;
  }
  std::vector<Index> goes = steps_to_delete(steps, retention, verified);
  for (const Index step : goes) delete_step(root, step);
  return goes;
}

std::vector<std::string> clean_leftovers(const std::string& root) {
  std::vector<std::string> names;
  if (!is_there(root)) return names;
  bool changed = false;
  for (const std::string& name : list_directory(root)) {
    const std::string path = str(root, '/', name);
    if (is_left_of_lock(name)) remove_file(path);
    const auto entry = parse_step_name(name);
    if (!entry || entry->state.empty() || entry->state == "aside") continue;
    changed = true;
    if (entry->state == "replaced" && restored(root, path, entry->step)) continue;
    if (removed(root, path)) names.push_back(name);
  }
  if (changed) sync_directory(root);
  return names;
}

}  // namespace trireme
