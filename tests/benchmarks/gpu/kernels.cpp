// Bandwidth of each memory-bound kernel beside a copy of the device: JSON lines {kernel, dtype,
// bytes, ms, gb_per_s, of_copy}. Bytes are the least that any kernel with this interface must move
// (docs/gpu/kernels.md), so a needless pass shows as a low share.
// usage: gpu_kernels_benchmark
// [WORKING_SET_MB]     default 512; below 256 the L2 cache helps, and the figures mean little
#include <cstdio>
#include <exception>

#include "tests/benchmarks/gpu/report.h"

namespace trireme::test {
namespace {

int run(Index working_set) {
  GpuBench bench;
  std::printf("# %s, working sets of %lld MB\n", bench.device().describe().c_str(),
              static_cast<long long>(working_set >> 20));
  Report report(bench, working_set);
  for (const DType dtype : {DType::bf16, DType::f32}) {
    benchmark_rows(bench, report, dtype);
    benchmark_flat(bench, report, dtype);
  }
  benchmark_update(bench, report);
  return 0;
}

}  // namespace
}  // namespace trireme::test

int main(int argc, char** argv) {
  const long megabytes = argc > 1 ? std::atol(argv[1]) : 512;
  if (argc > 2 || megabytes < 1) {
    std::fprintf(stderr, "usage: gpu_kernels_benchmark [WORKING_SET_MB]\n");
    return 64;
  }
  try {
    return trireme::test::run(trireme::Index{megabytes} << 20);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_kernels_benchmark: %s\n", error.what());
    return 1;
  }
}
