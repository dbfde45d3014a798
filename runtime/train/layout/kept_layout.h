// The layout of the checkpoint that a job resumes from, which --plan auto keeps where it can.
//
// Private to train.
#pragma once

#include <optional>
#include <string>

#include "trireme/options/checkpoint_options.h"

#include "runtime/layouts/search/layout_text.h"

namespace trireme::train {

struct KeptLayout {
  std::string origin;        // "step 10 of run"
  layouts::LayoutPins pins;  // all words but dp
  std::string problem;       // why these ranks cannot keep it; empty: nothing is known yet
};

/// Reads it from the newest step of --load (or that of --ckpt-step) whose manifest can be read.
/// Nothing: there is none, or --finetune begins a new run.
std::optional<KeptLayout> layout_of_checkpoint(const CheckpointOptions& options, Index ranks);

}  // namespace trireme::train
