// Dropout (Srivastava et al. 2014) that depends on (seed, name, step, global element) only: every
// micro-batch split, tensor and sequence-parallel layout, and every re-run drops the same elements.
#pragma once

#include "trireme/graph/graph.h"

namespace trireme {

/// The dim of a sharded activation that is divided among the tensor ranks. Ignored for replicated
/// values.
enum class SplitDim { rows, columns };

/// x / (1 - rate) where kept, else 0. rate 0 traces to nothing. x: (batch * sequence, channels) or
/// this rank's part of it.
Value dropout(Value x, float rate, Index sequence, SplitDim split = SplitDim::rows);

}  // namespace trireme
