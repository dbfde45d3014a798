// The environment in which CUDA and NCCL start: they take some choices from it alone.
//
// Not installed; modules above may include it.
#pragma once

#include "trireme/options/options.h"

namespace trireme::job {

/// Sets the environment of rank `rank` of `ranks` before CUDA is first called; what is set stays.
void set_gpu_environment(const Options& options, int rank, int ranks);

}  // namespace trireme::job
