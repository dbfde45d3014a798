// Offsets of buffers in the two arenas, by first fit.
#pragma once

#include <vector>

#include "runtime/graph/plan/lifetimes.h"

namespace trireme::graph {

struct ArenaBytes {
  Index slot = 0, scratch = 0;
};

/// Sets arena and offset of each buffer. With `pack`, buffers whose lifetimes do not meet may
/// overlap, and scratch goes into holes of the slot where it fits.
ArenaBytes place_buffers(std::vector<Stretch>& buffers, bool pack);

}  // namespace trireme::graph
