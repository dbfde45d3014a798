// Token and position embeddings.
#pragma once

#include "trireme/graph/graph.h"
#include "trireme/nn/parallel.h"

namespace trireme {

/// Rows of `table` picked by token. tokens: i32, any shape of `rows` elements; table: (vocabulary,
/// channels), which may be split over the tensor axis on dim 0 and padded (vocabulary-parallel) ->
/// (rows, channels), or its part of the rows under sequence parallelism. A token that no rank has
/// gives zeros.
Value embedding(Value tokens, Value table, SequenceParallel sequence = SequenceParallel::off);

/// x + table[position], where row r of the micro-batch has position r % sequence. x: (batch *
/// sequence, channels) or a part of its rows; table: (positions >= sequence, channels), the same on
/// every tensor rank.
Value add_positions(Value x, Value table, Index sequence);

}  // namespace trireme
