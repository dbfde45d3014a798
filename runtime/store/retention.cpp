// Implements Retention (steps.h). Which steps are deleted, and how: a step first loses its name,
// durably, and then its files, so that no partial step ever has a name. Also removes what
// interrupted saves and deletions leave.
#include <algorithm>
#include <optional>

#include "trireme/core/error.h"

#include "runtime/store/file.h"
#include "runtime/store/lease/lock_file.h"
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

bool is_verified(const CommittedStep& step) {
  const std::optional<Manifest> manifest = manifest_of(step);
  return manifest && !manifest->verified.empty();
}

/// Takes the newest verified one of `older`, newest first, out of `goes`. A manifest may be large:
/// one is read only where it decides. What stays in any case matters only where it is newer than a
/// verified step that would go.
void spare_newest_verified(const std::vector<CommittedStep>& older, std::vector<Index>& goes) {
  const auto is_to_go = [&](const CommittedStep& step) {
    return std::find(goes.begin(), goes.end(), step.step) != goes.end();
  };
  const auto found = std::find_if(older.begin(), older.end(), [&](const CommittedStep& step) {
    return is_to_go(step) && is_verified(step);
  });
  if (found == older.end()) return;
  const bool newer_stays = std::any_of(older.begin(), found, [&](const CommittedStep& step) {
    return !is_to_go(step) && is_verified(step);
  });
  if (!newer_stays) std::erase(goes, found->step);
}

/// Takes the newest one of `older` that is not newer than `verified_step`, and can be read, out of
/// `goes`.
void spare_newest_up_to(Index verified_step, const std::vector<CommittedStep>& older,
                        std::vector<Index>& goes) {
  const auto found = std::find_if(older.begin(), older.end(), [&](const CommittedStep& step) {
    return step.step <= verified_step && manifest_of(step);
  });
  if (found != older.end()) std::erase(goes, found->step);
}

}  // namespace

std::vector<Index> steps_to_delete(const std::vector<Index>& steps, const Retention& retention,
                                   const std::vector<Index>& verified) {
  std::vector<Index> out;
  if (retention.keep_last <= 0) return out;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const bool recent = static_cast<Index>(i) < retention.keep_last;
    const bool retained =
        retention.retain_interval > 0 && steps[i] % retention.retain_interval == 0;
    const bool spared = std::find(verified.begin(), verified.end(), steps[i]) != verified.end();
    if (!recent && !retained && !spared) out.push_back(steps[i]);
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
  std::vector<CommittedStep> older;
  std::vector<Index> steps;
  bool verified = false;     // one of the newest is
  Index verified_step = -1;  // as the newest say
  for (const CommittedStep& step : list_steps(root)) {
    if (static_cast<Index>(steps.size()) >= retention.keep_last) {
      older.push_back(step);
    } else {
      const std::optional<Manifest> manifest = manifest_of(step);
      if (!manifest) continue;
      verified = verified || !manifest->verified.empty();
      verified_step = std::max(verified_step, manifest->verified_step);
    }
    steps.push_back(step.step);
  }
  std::vector<Index> goes = steps_to_delete(steps, retention);
  if (!verified) spare_newest_verified(older, goes);
  if (std::none_of(steps.begin(), steps.end() - std::ssize(older),
                   [&](Index step) { return step <= verified_step; }))
    spare_newest_up_to(verified_step, older, goes);
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
