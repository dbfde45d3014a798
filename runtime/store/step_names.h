// Names in the directory of a run: "step-000120" is a committed step; with a suffix after a dot it
// is not.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "trireme/core/dtype.h"

namespace trireme::store {

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
