// Evaluation of all of some data, for jobs that do not train.
#pragma once

#include <span>
#include <vector>

#include "trireme/data/token_sweep.h"
#include "trireme/train/metrics.h"
#include "trireme/train/trainer.h"

namespace trireme {

/// Collective, after Trainer::load_parameters. The mean loss over every target of each part, once
/// each: the same for every layout. Of several parts also that of their blend: the mean over the
/// parts by the weights of their paths, which is the loss to be expected of a token that is drawn
/// from the blend; its bytes per target are the mean of theirs in the same way. Each is logged and
/// appended to --metrics once it is known. Throws: as Trainer::evaluate.
std::vector<EvaluationMetrics> evaluate_parts(Context& context, Trainer& trainer,
                                              std::span<const SweptPart> parts);

}  // namespace trireme
