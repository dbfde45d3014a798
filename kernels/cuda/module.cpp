
#include <cstdio>
#include <string>
#include <vector>

#include "kernels/cuda.h"
#include "kernels/cuda/cuda_device.h"

namespace trireme {

using namespace kernels;

namespace {

constexpr int least_capability = 80;  // bf16, and what the kernels are compiled for

/// "13.0" of 13000
std::string version(int cuda) { return str(cuda / 1000, '.', cuda % 1000 / 10); }

std::string why_not(cudaError_t error) {
  int driver = 0;  // the newest CUDA that it knows
  if (error == cudaErrorInsufficientDriver && cudaDriverGetVersion(&driver) == cudaSuccess)
    return driver == 0 ? std::string("there is no NVIDIA driver")
                       : str("the NVIDIA driver is for CUDA ", version(driver),
                             ", and this build needs ", version(CUDART_VERSION),
                             ": update the driver, or build with an older toolkit");
  return cudaGetErrorString(error);
}

std::string why_not(int index) {
  const int capability = capability_of(index);
  if (capability >= least_capability) return "";
  return str("GPU ", index, " (", static_cast<const char*>(properties_of(index).name),
             ") has compute capability ", capability / 10, '.', capability % 10, ", and ",
             least_capability / 10, '.', least_capability % 10,
             " is the least: leave it out with CUDA_VISIBLE_DEVICES");
}

/// The lines of trireme_cuda_find. Throws: Error when there is no GPU, or one that cannot be used.
std::vector<std::string> gpus_here() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  cudaGetLastError();  // it is reported here, not by the next call
  require(error == cudaSuccess, why_not(error));
  require(count > 0, "no GPU is visible");
  std::vector<std::string> gpus;
  for (int i = 0; i < count; ++i) {
    if (const std::string wrong = why_not(i); !wrong.empty()) throw Error(wrong);
    gpus.push_back(identity_of(i));
  }
  return gpus;
}

void write_text(const std::string& what, char* text, int text_bytes) {
  std::snprintf(text, static_cast<std::size_t>(text_bytes), "%s", what.c_str());
}

}  // namespace
}  // namespace trireme

extern "C" int trireme_cuda_find(char* text, int text_bytes) {
  try {
    std::string lines;
    const std::vector<std::string> gpus = trireme::gpus_here();
    for (const std::string& gpu : gpus) lines += gpu + '\n';
    trireme::write_text(lines, text, text_bytes);
    return static_cast<int>(gpus.size());
  } catch (const std::exception& error) {
    trireme::write_text(error.what(), text, text_bytes);
    return 0;
  }
}

extern "C" trireme::Device* trireme_cuda_open(const trireme::CudaOptions& options, char* text,
                                              int text_bytes) {
  try {
    return new trireme::CudaDevice(options.index, options.gemm_cache);
  } catch (const std::exception& error) {
    trireme::write_text(error.what(), text, text_bytes);
    return nullptr;
  }
}
