// Opens GPUs through the CUDA module (runtime/core/cuda_module.h).
//
// Not installed; modules above may include it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "trireme/core/device.h"

namespace trireme {

struct CudaOptions {
  int index = 0;            // index of the GPU among those that this process sees
  std::string module = {};  // path of the module; empty: libtrireme_cuda.so beside this library
  /// Directory where choices of algorithms for matrix products are kept, shared by all ranks and
  /// jobs; empty: none, and nothing is timed (GemmKernels::prepare).
  std::string gemm_cache = {};
};

/// Device::identity of the GPUs that this process sees, by CudaOptions::index. When there are none,
/// `reason` says why: no module, no driver, no device.
std::vector<std::string> find_gpus(const CudaOptions& options, std::string& reason);
/// Throws: Error with the reason.
std::unique_ptr<Device> open_cuda(const CudaOptions& options = {});

}  // namespace trireme

// The two entry points of the CUDA module, as these functions find them.
extern "C" {
/// How many GPUs there are, with a line in `text` for each (Device::identity); or 0, with the
/// reason in `text`.
int trireme_cuda_find(char* text, int text_bytes);
/// The caller owns the device. Null, with the reason in `text`, when it cannot be opened.
trireme::Device* trireme_cuda_open(const trireme::CudaOptions& options, char* text, int text_bytes);
}
