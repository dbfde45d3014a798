// The GPU of the kernel tests, as the programs open it: through the CUDA module, which lies beside
// libtrireme.so or where TRIREME_CUDA_MODULE says. Without a GPU the program fails with the reason;
// it never passes by skipping.
// usage: gpu_kernels_tests | gpu_large_tests [--sizes whole|small]
// [GoogleTest's options]
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "kernels/cuda.h"
#include "tests/kernels/cuda/cpu_gpu_pairs.h"

namespace trireme::test {
namespace {

CudaOptions first_gpu() {
  CudaOptions options;
  if (const char* module = std::getenv("TRIREME_CUDA_MODULE")) options.module = module;
  return options;
}

/// Leaves out the tests of other sizes than --sizes says, which are those that end in their name.
/// Returns: what is wrong with the arguments that GoogleTest left.
std::string choose_sizes(int argc, char** argv) {
  const std::string usage = "usage: [--sizes whole|small] [GoogleTest's options], and not ";
  std::string_view sizes = "whole";
  if (argc > 1 && argv[1] != std::string_view("--sizes")) return usage + argv[1];
  if (argc == 2 || argc > 3) return usage + (argc == 2 ? "--sizes alone" : argv[3]);
  if (argc == 3) sizes = argv[2];
  if (sizes != "whole" && sizes != "small") return usage + "--sizes " + argv[2];
  std::string filter = GTEST_FLAG_GET(filter);
  filter += filter.find('-') == std::string::npos ? "-" : ":";
  GTEST_FLAG_SET(filter, filter + (sizes == "whole" ? "*/small" : "*/whole"));
  return "";
}

}  // namespace

std::unique_ptr<Device> open_gpu() { return open_cuda(first_gpu()); }

/// A GPU has one order, its own.
void in_every_order(const std::function<void()>& f) { f(); }

}  // namespace trireme::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const char* const slash = std::strrchr(argv[0], '/');
  const char* const program = slash == nullptr ? argv[0] : slash + 1;
  if (const std::string wrong = trireme::test::choose_sizes(argc, argv); !wrong.empty()) {
    std::fprintf(stderr, "%s: %s\n", program, wrong.c_str());
    return 64;
  }
  if (GTEST_FLAG_GET(list_tests)) return RUN_ALL_TESTS();
  std::string reason;
  if (trireme::find_gpus(trireme::test::first_gpu(), reason).empty()) {
    std::fprintf(stderr, "%s: no GPU can be used: %s\n", program, reason.c_str());
    return 1;
  }
  std::printf("# %s\n", trireme::test::open_gpu()->describe().c_str());
  return RUN_ALL_TESTS();
}
