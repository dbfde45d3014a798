// GPUs are looked for only where there can be some.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "kernels/cuda.h"
#include "runtime/core/cuda_module.h"

namespace trireme {
namespace {

TEST(LoadCuda, LoadsNoLibraryOfCudaWithoutADriver) {
  if (::dlopen("libcuda.so.1", RTLD_NOW) != nullptr) GTEST_SKIP() << "this machine has a driver";
  std::string reason;
  EXPECT_TRUE(find_gpus({}, reason).empty());
  EXPECT_FALSE(reason.empty());
  EXPECT_EQ(::dlopen(cuda_module_path("").c_str(), RTLD_NOW | RTLD_NOLOAD), nullptr);
}

}  // namespace
}  // namespace trireme
