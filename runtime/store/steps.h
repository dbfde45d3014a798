// Steps: the directory of a run, how a step is added to it (commit) and removed (retention). A step
// exists once its directory is renamed to "step-NNNNNN"; names with a dot are unfinished, set aside
// or being deleted. docs/concepts/checkpoints.md explains why this is safe. Only one process (rank
// 0) calls functions that change names.
//
// Not installed; modules above may include it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/core/dtype.h"

#include "runtime/store/manifest.h"

namespace trireme {

/// "step-000120"
std::string step_name(Index step);
struct CommittedStep {
  Index step;
  std::string path;
};
/// Newest first. By name only: nothing is read. A directory that does not exist has none.
std::vector<CommittedStep> list_steps(const std::string& root);

/// Where a save is written until it is committed: "ROOT/step-000120.tmp-RUN". The run id in it
/// keeps late ranks of a killed job away from what a new job writes.
std::string unfinished_path(const std::string& root, Index step, const std::string& run);
/// Checks the manifest and the sizes of all files. Throws: Error that names the file.
Manifest read_manifest(const std::string& step_directory);
/// Syncs the directory, writes the manifest, syncs, reads it back, renames to step_name, syncs
/// `root`. It replaces a step of the same number (which is exchanged, then deleted). Throws: Error;
/// the step then is not committed, and what was there before still is.
void commit_step(const std::string& root, const Manifest& manifest);
/// Removes what an unfinished save left; does not throw for what no longer exists.
void discard_step(const std::string& root, Index step, const std::string& run);

struct Retention {
  Index keep_last = 0;        // newest steps that stay; 0: all
  Index retain_interval = 0;  // multiples of it stay too; 0: none
};
/// Which of `steps` (newest first) to delete. Never the newest, nor `verified`: the newest that was
/// verified clean (Manifest::verified), and the newest that is no newer than a step that was
/// (Manifest::verified_step).
std::vector<Index> steps_to_delete(const std::vector<Index>& steps, const Retention& retention,
                                   const std::vector<Index>& verified = {});
/// Renamed first, then removed: a crash in between leaves no half step under its name.
void delete_step(const std::string& root, Index step);
/// Deletes what `retention` does not keep; returns the steps.
std::vector<Index> prune_steps(const std::string& root, const Retention& retention);

/// Removes unfinished and half deleted steps of jobs that are gone. Only under the lease. Returns
/// their names.
std::vector<std::string> clean_leftovers(const std::string& root);
/// Renames newer steps than `step` to "step-NNNNNN.aside-RUN", so that a run which went back to
/// `step` is not mistaken for their continuation. Returns their new names.
std::vector<std::string> set_aside_newer(const std::string& root, Index step,
                                         const std::string& run);
/// Returns what was renamed so, as "set aside 3 checkpoints of RUN, NAME to NAME".
std::string describe_set_aside(const std::string& root, const std::vector<std::string>& names);

}  // namespace trireme

namespace trireme::store {

/// Names in the directory of a run: "step-000120" is a committed step; with a suffix after a dot it
/// is not.
struct StepEntry {
  Index step;
  std::string state;  // "" committed; "tmp", "deleted", "replaced", "aside"
};
/// Nothing when `name` is none of these: such files are never touched.
std::optional<StepEntry> parse_step_name(std::string_view name);

/// "ROOT/step-000120", or "ROOT/step-000120.tmp-RUN"
std::string step_path(const std::string& root, Index step);
std::string step_path(const std::string& root, Index step, const char* state,
                      const std::string& run);

/// False only when nothing of that name certainly exists.
bool is_there(const std::string& path);
/// Removes a directory of `root` that has lost the name of a step, or never had it, and all that is
/// in it; gone already is fine. Syncs `root` first: after a power cut the old name could be back,
/// without the files.
void remove_tree(const std::string& root, const std::string& path);

}  // namespace trireme::store
