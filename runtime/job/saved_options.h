// --use-checkpoint-args: the options with which the job of a checkpoint ran.
#pragma once

#include <optional>
#include <string>

#include "trireme/options/options.h"

namespace trireme {

struct SavedOptions {
  KeyValues options;
  std::string origin;  // "step 10 of run"
};

/// The options of the step that --load and --ckpt-step select, as loading does: the newest one that
/// can be read. Every rank reads it; ranks later compare their options, which shows whether all
/// have read the same. Returns nothing if there is no such step, which is added to `problems`, or
/// if --load itself is wrong.
std::optional<SavedOptions> read_saved_options(const CheckpointOptions& options,
                                               Problems& problems);

}  // namespace trireme
