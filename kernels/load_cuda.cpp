// Loads the CUDA module. It stays loaded until the process ends: CUDA's libraries do not like to be unloaded.
#include <array>
#include <filesystem>

#include <dlfcn.h>

#include "trireme/core/error.h"
#include "trireme/kernels/cuda.h"

#include "kernels/cuda/module.h"

namespace trireme {
namespace {

using Reason = std::array<char, 1024>;

std::string module_path(const CudaOptions& options) {
  if (!options.module.empty()) return options.module;
  Dl_info here{};
  if (dladdr(reinterpret_cast<const void*>(&count_gpus), &here) == 0) return "libtrireme_cuda.so";
  return std::filesystem::path(here.dli_fname).parent_path() / "libtrireme_cuda.so";
}

/// The function `name` of the module; null, with `reason`, when there is none.
void* find(const CudaOptions& options, const char* name, std::string& reason) {
  const std::string path = module_path(options);
  void* module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* function = module == nullptr ? nullptr : dlsym(module, name);
  if (function == nullptr) reason = dlerror();
  return function;
}

}  // namespace

int count_gpus(const CudaOptions& options, std::string& reason) {
  void* function = find(options, "trireme_cuda_count", reason);
  if (function == nullptr) return 0;
  Reason text{};
  const int count = reinterpret_cast<decltype(&trireme_cuda_count)>(function)(
      text.data(), static_cast<int>(text.size()));
  if (count == 0) reason = text.data();
  return count;
}

std::unique_ptr<Device> open_cuda(const CudaOptions& options) {
  std::string reason;
  void* function = find(options, "trireme_cuda_open", reason);
  require(function != nullptr, "no GPU can be used: ", reason);
  Reason text{};
  Device* device = reinterpret_cast<decltype(&trireme_cuda_open)>(function)(
      options.index, text.data(), static_cast<int>(text.size()));
  require(device != nullptr, "GPU ", options.index, " cannot be used: ", text.data());
  return std::unique_ptr<Device>(device);
}

}  // namespace trireme
