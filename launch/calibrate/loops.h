// Rates of ops that loop over memory, by the profile of a training step (--profile-ops).
#pragma once

#include <string>
#include <vector>

#include "trireme/job/run.h"
#include "trireme/models/transformer_config.h"

#include "runtime/cost/profile.h"

namespace trireme::calibrate {

/// Two shallow transformers that together have the usual ops.
std::vector<TransformerConfig> usual_models(DeviceKind device);

/// Collective. Trains each for a few steps, as data ranks, with micro-batches of so many samples.
/// Sets Profile::loops. `scratch`: a file to write to, which is removed.
void measure_loops(const Context& context, const std::vector<TransformerConfig>& models,
                   Index micro_batch, const std::string& scratch, cost::Profile& profile);

}  // namespace trireme::calibrate
