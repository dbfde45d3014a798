// The CUDA module is a library that is loaded on demand. So the same installation starts on
// machines without a driver or CUDA's libraries, and can report why it runs on the CPU. Its users
// find its entry points here.
//
// Not installed; modules above may include it.
#pragma once

#include <string>

namespace trireme {

/// Path of the module: `given`, or when that is empty libtrireme_cuda.so beside trireme's own
/// library.
std::string cuda_module_path(const std::string& given);

/// The entry point `name` of the module at `path` (as cuda_module_path takes it); null, with
/// `reason`, when there is none. The module stays loaded until the process ends: CUDA's libraries
/// do not support unloading.
void* find_in_cuda_module(const std::string& path, const char* name, std::string& reason);

/// Finds a function of the type that its declaration gives:
/// find_in_cuda_module<decltype(open)>(path, "open", reason).
template <class Function>
Function* find_in_cuda_module(const std::string& path, const char* name, std::string& reason) {
  return reinterpret_cast<Function*>(find_in_cuda_module(path, name, reason));
}

}  // namespace trireme
