// How activations are distributed between the tensor-parallel regions of a model. Passed explicitly
// to the few layers that need it. Everywhere in nn an activation is a matrix of token rows, (batch
// * sequence, channels). Sequence parallelism gives each tensor rank an equal, contiguous part of
// the *rows* of the micro-batch, so norms, residuals and dropout run on a part each and no
// transposition is ever needed (Korthikanti et al. 2022, arXiv:2205.05198).
#pragma once

namespace trireme {

/// off: every tensor rank holds all rows between the regions. on: each holds its part of the rows.
enum class SequenceParallel { off, on };

}  // namespace trireme
