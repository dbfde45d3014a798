// Which device a rank trains on, and which cores it may use. The device is decided by all ranks
// together, before anything is allocated: either all have a GPU or none.
//
// Not installed; modules above may include it.
#pragma once

#include <memory>
#include <string>

#include "trireme/core/dtype.h"
#include "trireme/job/run.h"
#include "trireme/options/options.h"

namespace trireme::job {

/// The device of this rank; `cuda` is the same on all ranks.
struct DeviceChoice {
  bool cuda = false;
  int gpu = 0;         // index among the GPUs that this rank sees
  std::string module;  // path of the CUDA module; empty: the installed one
  std::string reason;  // why no GPU is used although one was wanted; may be empty
};

/// Another build of the CUDA module than the installed one: against another CUDA, or the host
/// emulation of the tests. Empty: the installed one.
std::string cuda_module();

/// Collective. `module`: of CUDA; empty: the installed one. A choice that is not possible is added
/// to `problems`.
DeviceChoice choose_device(const Options& options, const Host& host, const std::string& module,
                           Problems& problems);

// The environment in which CUDA and NCCL start: they take some choices from it alone.

/// Sets the environment of rank `rank` of `ranks` before CUDA is first called; what is set stays.
void set_gpu_environment(const Options& options, int rank, int ranks);

}  // namespace trireme::job

namespace trireme {

// The cores that a rank may use. With two ranks or fewer Open MPI binds each to one core, which
// helper threads would share.

/// If this process may use fewer cores than `threads`, gives it those of the process that started
/// it (mpirun). Call before threads are created. `why`: the reason for the threads. Returns a
/// sentence for the log, or "".
std::string widen_affinity(Index threads, const std::string& why);

/// The number of cores that this process may use.
int cores_of_this_process();

}  // namespace trireme
