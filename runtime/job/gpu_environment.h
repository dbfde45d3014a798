// The environment in which CUDA and NCCL start: they take some choices from it alone.
//
// Not installed; modules above may include it.
#pragma once

#include "trireme/options/options.h"

namespace trireme::job {

/// Of rank `rank` of `ranks`. Before CUDA is first called; what is set already stays.
void set_gpu_environment(const Options& options, int rank, int ranks);

}  // namespace trireme::job
