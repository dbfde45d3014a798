// Views: other shapes and boxes of the same memory. They cost nothing, forward or backward.
#pragma once

#include "trireme/graph/graph.h"

namespace trireme {

/// Elements [begin, end) along `dim`. Strided unless dim is the first.
Value slice(Value x, int dim, Index begin, Index end);
/// Other dims of the same count. x: packed.
Value reshape(Value x, Shape shape);
/// x itself if it is packed, else a packed copy.
Value contiguous(Value x);

}  // namespace trireme
