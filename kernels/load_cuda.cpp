// GPUs, from the CUDA module.
#include <array>

#include "trireme/core/cuda_module.h"
#include "trireme/core/error.h"
#include "trireme/kernels/cuda.h"

#include "kernels/cuda/module.h"

namespace trireme {
namespace {

using Reason = std::array<char, 1024>;

}  // namespace

int count_gpus(const CudaOptions& options, std::string& reason) {
  auto* count_in_module = find_in_cuda_module<decltype(trireme_cuda_count)>(
      options.module, "trireme_cuda_count", reason);
  if (count_in_module == nullptr) return 0;
  Reason text{};
  const int count = count_in_module(text.data(), static_cast<int>(text.size()));
  if (count == 0) reason = text.data();
  return count;
}

std::unique_ptr<Device> open_cuda(const CudaOptions& options) {
  std::string reason;
  auto* open_in_module =
      find_in_cuda_module<decltype(trireme_cuda_open)>(options.module, "trireme_cuda_open", reason);
  require(open_in_module != nullptr, "no GPU can be used: ", reason);
  Reason text{};
  Device* device = open_in_module(options, text.data(), static_cast<int>(text.size()));
  require(device != nullptr, "GPU ", options.index, " cannot be used: ", text.data());
  return std::unique_ptr<Device>(device);
}

}  // namespace trireme
