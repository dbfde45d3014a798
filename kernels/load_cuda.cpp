// GPUs, from the CUDA module.
#include <array>
#include <filesystem>
#include <sstream>
#include <system_error>
#include <utility>

#include <dlfcn.h>

#include "trireme/core/error.h"

#include "kernels/cuda.h"
#include "runtime/core/cuda_module.h"

namespace trireme {

namespace {

using Text = std::array<char, 8192>;

/// Why the module cannot find a GPU; empty: it may. Its libraries take 0.15 s and 200 MiB of each
/// rank, in vain where there is no driver. Another module than ours may need none.
std::string why_no_driver(const CudaOptions& options) {
  std::error_code error;
  if (!options.module.empty() || !std::filesystem::exists(cuda_module_path(""), error) ||
      ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) != nullptr)
    return "";
  const std::string why = ::dlerror();
  return why.find("No such file") != std::string::npos
             ? "there is no NVIDIA driver"
             : "the NVIDIA driver cannot be loaded: " + why;
}

}  // namespace

std::vector<std::string> find_gpus(const CudaOptions& options, std::string& reason) {
  if (std::string none = why_no_driver(options); !none.empty()) {
    reason = std::move(none);
    return {};
  }
  auto* find_in_module =
      find_in_cuda_module<decltype(trireme_cuda_find)>(options.module, "trireme_cuda_find", reason);
  if (find_in_module == nullptr) return {};
  Text text{};
  const int count = find_in_module(text.data(), static_cast<int>(text.size()));
  if (count == 0) reason = text.data();
  std::vector<std::string> gpus(static_cast<std::size_t>(count));
  std::istringstream lines(text.data());
  for (std::string& gpu : gpus) std::getline(lines, gpu);
  return gpus;
}

std::unique_ptr<Device> open_cuda(const CudaOptions& options) {
  std::string reason;
  auto* open_in_module =
      find_in_cuda_module<decltype(trireme_cuda_open)>(options.module, "trireme_cuda_open", reason);
  require(open_in_module != nullptr, "no GPU can be used: ", reason);
  Text text{};
  Device* device = open_in_module(options, text.data(), static_cast<int>(text.size()));
  require(device != nullptr, "GPU ", options.index, " cannot be used: ", text.data());
  return std::unique_ptr<Device>(device);
}

}  // namespace trireme
