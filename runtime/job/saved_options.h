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

/// Of the step that --load and --ckpt-step choose, as loading does: the newest one that can be
/// read. Every rank reads it; that all have read the same is seen when they compare their options.
/// Nothing where there is none, which goes to `problems`, or where --load itself is wrong.
std::optional<SavedOptions> read_saved_options(const CheckpointOptions& options,
                                               Problems& problems);

}  // namespace trireme
