// LayoutMesh: the shape of a layout with rank 0 alone. A program runs on it, without ranks, until
// its Trainer has planned the memory.
//
// Not installed; modules above may include it.
#pragma once

#include <string>

#include "trireme/job/run.h"

namespace trireme {

/// Thrown by a Trainer of such a process, in place of allocating anything. Not a std::exception, so
/// that no handler of the program mistakes it for a failure.
struct LayoutChecked {
  Index rank_bytes = 0;          // planned memory of the rank that needs most
  std::string description = {};  // text of the plans of all ranks, with Options::plan_only
  Index state_bytes = 0;  // most that parameters, gradients and state of the optimizer take of it
};

/// Whether this process only plans a layout. The mesh then has its shape, but no other ranks.
bool only_checks_layout(const Context& context);
/// What ranks are planned for: the device in use, or the one that a layout is planned for.
DeviceTraits planned_device(const Context& context);

}  // namespace trireme
