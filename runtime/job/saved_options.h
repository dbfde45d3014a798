// --use-checkpoint-args: the options with which the job of a checkpoint ran; and what ranks agree
// on, of these or of those of --load-hf.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "trireme/comm/host.h"
#include "trireme/options/options.h"

namespace trireme::job {

struct SavedOptions {
  KeyValues options;
  std::string origin;                         // "step 10 of run"
  std::string why = "--use-checkpoint-args";  // the option that asks for them
};

/// The options of the step that --ckpt-step selects, otherwise of the newest one whose manifest can
/// be read. Loading goes back further where tensors are damaged. Returns nothing if there is no
/// such step, which is added to `problems`, or if --load itself is wrong.
std::optional<SavedOptions> read_saved_options(const CheckpointOptions& options,
                                               Problems& problems);

/// Collective, whatever the options of a rank: what `read` finds on rank 0, and its problems, on
/// every rank where `wanted`. Steps come and go, so ranks that read on their own could read
/// different ones. Returns nothing on all ranks if rank 0 wants nothing; ranks compare their
/// options afterwards.
std::optional<SavedOptions> agree_on_saved_options(
    const Host& host, bool wanted,
    const std::function<std::optional<SavedOptions>(Problems&)>& read, Problems& problems);

}  // namespace trireme::job
