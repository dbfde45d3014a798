// One line of the kernels' table: bytes over time, beside a copy of the device.
#pragma once

#include <cstdio>
#include <string>

#include "tests/benchmarks/gpu/gpu_bench.h"

namespace trireme::test {

class Report {
 public:
  Report(GpuBench& bench, Index working_set) : bench_(bench), working_set_(working_set) {
    const Index half = working_set / 2;
    void *from = bench.make(DType::f32, half / 4), *to = bench.bytes(half);
    copy_ = line("copy", DType::f32, 2 * half, [&] { bench.stream().copy(to, from, half); });
  }
  /// Rows of `row_bytes` (all that is read and written of one) that make up the working set.
  Index rows(Index row_bytes) const { return std::max(working_set_ / row_bytes, Index{1}); }

  double line(const std::string& kernel, DType dtype, Index bytes,
              const std::function<void()>& launch) {
    const Timing timing = bench_.time(launch);
    const double rate = static_cast<double>(bytes) / timing.median * 1e-9;
    std::printf(
        "{\"kernel\":\"%s\",\"dtype\":\"%s\",\"bytes\":%lld,\"ms\":%.4f,\"gb_per_s\":%.1f,"
        "\"of_copy\":%.3f%s}\n",
        kernel.c_str(), name(dtype), static_cast<long long>(bytes), timing.median * 1e3, rate,
        copy_ > 0 ? rate / copy_ : 1, spread_json(timing).c_str());
    std::fflush(stdout);
    bench_.clear();
    return rate;
  }

 private:
  GpuBench& bench_;
  Index working_set_;
  double copy_ = 0;
};

/// What works row by row: norms, activations, rotary embeddings; in the type of activations.
void benchmark_rows(GpuBench& bench, Report& report, DType dtype);
/// What works on flat arrays and tables: elementwise kernels, embeddings, cross-entropy; in the
/// type of activations.
void benchmark_flat(GpuBench& bench, Report& report, DType dtype);
/// What buckets and the update are made of: conversions, sums, the optimizer; fp32, and bf16 where
/// compute copies are.
void benchmark_update(GpuBench& bench, Report& report);

}  // namespace trireme::test
