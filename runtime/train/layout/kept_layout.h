// The layout of the checkpoint that a job resumes from, which --plan auto keeps.
//
// Private to train.
#pragma once

#include <optional>
#include <string>

#include "trireme/options/checkpoint_options.h"

#include "runtime/planner/search/layout_text.h"

namespace trireme::train {

struct KeptLayout {
  planner::LayoutPins pins;  // all words but dp
  std::string origin;        // "step 10 of run"
};

/// Of the newest step of --load (or that of --ckpt-step) whose manifest can be read. Nothing: there
/// is none, another number of ranks wrote it, or it does not say its layout.
std::optional<KeptLayout> layout_of_checkpoint(const CheckpointOptions& options, Index ranks);

}  // namespace trireme::train
