// Sizes that are multiples of something: of an alignment, a tile, a block.
//
// Not installed; modules above may include it.
#pragma once

#include "trireme/core/dtype.h"

namespace trireme {

/// The least multiple of `unit` (> 0) that is not below `count` (>= 0).
constexpr Index round_up(Index count, Index unit) { return (count + unit - 1) / unit * unit; }

}  // namespace trireme
