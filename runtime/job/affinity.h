// The cores that a rank may use. With two ranks or fewer Open MPI binds each to one core, which
// helper threads would share. Not installed; modules above may include it.
#pragma once

#include <string>

#include "trireme/core/dtype.h"

namespace trireme {

/// Where this process may use fewer cores than `threads`, it takes those of the process that
/// started it (mpirun). Before threads are made. `why`: it needs them. Returns a sentence about it,
/// or "".
std::string widen_affinity(Index threads, const std::string& why);

/// How many this process may use.
int cores_of_this_process();

}  // namespace trireme
