// The cores that a rank may use. With two ranks or fewer Open MPI binds each to one core, which
// helper threads would share.
//
// Not installed; modules above may include it.
#pragma once

#include <string>

#include "trireme/core/dtype.h"

namespace trireme {

/// If this process may use fewer cores than `threads`, gives it those of the process that started
/// it (mpirun). Call before threads are created. `why`: the reason for the threads. Returns a
/// sentence for the log, or "".
std::string widen_affinity(Index threads, const std::string& why);

/// The number of cores that this process may use.
int cores_of_this_process();

}  // namespace trireme
