// --use-checkpoint-args: the options with which the job of a checkpoint ran.
#pragma once

#include <optional>
#include <string>

#include "trireme/comm/host.h"
#include "trireme/options/options.h"

namespace trireme::job {

struct SavedOptions {
  KeyValues options;
  std::string origin;  // "step 10 of run"
};

/// The options of the step that --ckpt-step selects, otherwise of the newest one whose manifest can
/// be read. Loading goes back further where tensors are damaged. Returns nothing if there is no
/// such step, which is added to `problems`, or if --load itself is wrong.
std::optional<SavedOptions> read_saved_options(const CheckpointOptions& options,
                                               Problems& problems);

/// Collective, whatever the options of a rank: what rank 0 has read, and its problems, on every
/// rank with --use-checkpoint-args. Steps come and go, so ranks that read on their own could read
/// different ones. Returns nothing on all ranks if rank 0 has no --use-checkpoint-args; ranks
/// compare their options afterwards.
std::optional<SavedOptions> agree_on_saved_options(const Host& host,
                                                   const CheckpointOptions& options,
                                                   Problems& problems);

}  // namespace trireme::job
