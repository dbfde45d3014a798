// The directory of --gemm-cache, before anything is made on a GPU.
#pragma once

#include <string>

#include "trireme/job/run.h"

namespace trireme {

/// Collective. Makes the directory where it is missing. What keeps this rank from writing there, or
/// from seeing what rank 0 writes there, is added to `problems`: ranks with directories of their
/// own would choose different algorithms.
void open_gemm_directory(const std::string& directory, const Host& host, Problems& problems);

}  // namespace trireme
