// --load-hf: the initial values of a run that begins with a model of Hugging Face. Every rank reads
// the boxes that it holds, as from a checkpoint.
#pragma once

#include <functional>
#include <string>

#include "trireme/job/run.h"

#include "runtime/optim/flat_parameters.h"
#include "runtime/store/manifest.h"

namespace trireme::checkpoint {

/// Which rows of a logical tensor a source has: those from the result on are drawn.
using RowsHeld = std::function<Index(const std::string& logical)>;

/// Collective. Fills the parameters from --load-hf; `draw` draws what it does not hold, before.
/// `catalog`: tensors of the whole job; used on rank 0. With --save, keeps the files of the model
/// there. Returns facts about what was read, for checkpoints. Throws: ConfigurationError (the files
/// do not fit the job), JobError (they cannot be read).
KeyValues load_initial_values(const Context& context, const FlatParameters& flat,
                              const Manifest& catalog,
                              const std::function<void(const RowsHeld&)>& draw);

}  // namespace trireme::checkpoint
