#include "runtime/core/cuda_module.h"

#include <filesystem>

#include <dlfcn.h>

namespace trireme {

std::string cuda_module_path(const std::string& given) {
  if (!given.empty()) return given;
  Dl_info here{};
  if (dladdr(reinterpret_cast<const void*>(&cuda_module_path), &here) == 0)
    return "libtrireme_cuda.so";
  return std::filesystem::path(here.dli_fname).parent_path() / "libtrireme_cuda.so";
}

void* find_in_cuda_module(const std::string& path, const char* name, std::string& reason) {
  const std::string file = cuda_module_path(path);
  void* module = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* function = module == nullptr ? nullptr : dlsym(module, name);
  if (function == nullptr) reason = dlerror();
  if (module == nullptr && !std::filesystem::exists(file))
    reason = "there is no " + file + "; building the target trireme_cuda, where nvcc is, makes it";
  return function;
}

}  // namespace trireme
