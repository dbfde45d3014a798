// The conjugate pairs of tensor-parallel collectives: each is the gradient of another (Shoeybi et
// al. 2019, arXiv:1909.08053; Korthikanti et al. 2022, arXiv:2205.05198). With one tensor rank all
// of them trace to nothing.
//
//                   forward         backward        placement
//   enter           nothing         all-reduce      replicated -> partial_gradient
//   leave           all-reduce      nothing         partial -> replicated
//   gather_rows     all-gather      reduce-scatter  sharded -> partial_gradient
//   scatter_rows    reduce-scatter  all-gather      partial -> sharded
//   split_columns   own columns     all-gather      replicated -> sharded
//   gather_columns  all-gather      own columns     sharded -> replicated
#pragma once

#include "trireme/graph/graph.h"
#include "trireme/nn/parallel.h"

namespace trireme {

/// Into a tensor-parallel region: the same value, whose gradient is the sum of the ranks' terms. x:
/// any shape, replicated.
Value enter(Value x);
/// Out of a region: the sum of the ranks' terms. x: any shape, partial.
Value leave(Value x);

/// Into a region from sharded rows. x: (rows / ranks, channels) -> (rows, channels).
Value gather_rows(Value x);
/// Out of a region to sharded rows. x: (rows, channels), partial -> (rows / ranks, channels).
/// Throws: Error when the rows do not divide by the tensor size.
Value scatter_rows(Value x);

/// This rank's columns. x: (rows, columns) -> (rows, columns / ranks). Throws: Error when they do
/// not divide.
Value split_columns(Value x);
/// All columns; the last ranks' padding beyond `columns` is dropped. x: (rows, local) -> (rows,
/// columns).
Value gather_columns(Value x, Index columns);

/// Into a region, whatever the placement of x: enter if replicated, gather_rows if sharded, x
/// itself if partial_gradient.
Value enter_region(Value x);
/// Out of a region: scatter_rows under sequence parallelism, else leave.
Value leave_region(Value x, SequenceParallel sequence);

}  // namespace trireme
