// The directory of --gemm-cache, checked before anything is created on a GPU.
#pragma once

#include <string>

#include "trireme/job/run.h"

namespace trireme::job {

/// Collective. Creates the directory if it is missing. Adds to `problems` what keeps this rank from
/// writing there, or from seeing what rank 0 writes there: ranks with separate directories would
/// choose different algorithms.
void open_gemm_directory(const std::string& directory, const Host& host, Problems& problems);

}  // namespace trireme::job
