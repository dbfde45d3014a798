// Lifetimes: pieces of memory that live at different times, or that ops let share, become buffers.
#pragma once

#include <vector>

#include "runtime/graph/compile/program.h"

namespace trireme::graph {

/// One range of memory in an arena, for one instance or several that share it.
struct Stretch {
  std::vector<int> members;  // indices in Program::memory, by begin
  std::vector<int> reach;    // per member: the latest end of it and those before it
  Index bytes = 0;
  int begin = 0, end = 0;
  Instance::Arena arena = Instance::Arena::scratch;
  Index offset = 0;
};

/// With `share`, joins what may share memory (rule 6). Records in each step which buffers are dead
/// after it. What lives across two calls goes to the slot.
std::vector<Stretch> make_buffers(Program& program, bool share);

/// Offsets of buffers in the two arenas, by first fit.
struct ArenaBytes {
  Index slot = 0, scratch = 0;
};

/// Sets arena and offset of each buffer. With `pack`, buffers whose lifetimes do not meet may
/// overlap, and scratch goes into holes of the slot where it fits.
ArenaBytes place_buffers(std::vector<Stretch>& buffers, bool pack);

}  // namespace trireme::graph
