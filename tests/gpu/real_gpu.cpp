// The GPU of the kernel tests, as the programs open it: through the CUDA module, which lies beside libtrireme.so or where
// TRIREME_CUDA_MODULE says. Without a GPU the program fails with the reason; it never passes by skipping.
#include <cstdio>
#include <cstdlib>

#include "trireme/kernels/cuda.h"

#include "tests/kernels/cuda/twins.h"

namespace trireme::test {
namespace {

CudaOptions first_gpu() {
  CudaOptions options;
  if (const char* module = std::getenv("TRIREME_CUDA_MODULE")) options.module = module;
  return options;
}

}  // namespace

std::unique_ptr<Device> open_gpu() { return open_cuda(first_gpu()); }

/// A GPU has one order, its own.
void in_every_order(const std::function<void()>& f) { f(); }

}  // namespace trireme::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (GTEST_FLAG_GET(list_tests)) return RUN_ALL_TESTS();
  std::string reason;
  if (trireme::find_gpus(trireme::test::first_gpu(), reason).empty()) {
    std::fprintf(stderr, "gpu_kernels_tests: no GPU can be used: %s\n", reason.c_str());
    return 1;
  }
  std::printf("# %s\n", trireme::test::open_gpu()->describe().c_str());
  return RUN_ALL_TESTS();
}
