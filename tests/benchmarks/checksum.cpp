// Copy with checksum against memcpy, block by block as a snapshot does it, over more memory than
// any cache holds. The measure is the ratio, so the three loops alternate within each iteration,
// and CPU time counts, which a busy machine disturbs less.
#include "runtime/store/checksum.h"

#include <cstring>
#include <ctime>
#include <memory>
#include <vector>

#include <benchmark/benchmark.h>
#include <sys/mman.h>

#include "trireme/core/buffer.h"
#include "trireme/core/error.h"

#include "runtime/store/file_layout.h"
#include "tests/benchmarks/timing.h"

namespace trireme {
namespace {

template <class F>
double cpu_seconds(F f) {
  const std::clock_t start = std::clock();
  f();
  return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
}

/// What a snapshot copies from: memory of this process in huge pages, or that shared with other
/// ranks, in small ones.
enum class From { own, shared };

Buffer allocate(From from, Index bytes) {
  if (from == From::own) return allocate_host(bytes);
  const auto size = static_cast<std::size_t>(bytes);
  void* data = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  require(data != MAP_FAILED, "no shared memory of ", bytes, " bytes");
  return Buffer(data, bytes, std::shared_ptr<void>(data, [size](void* p) { ::munmap(p, size); }));
}

void copy_with_checksum(benchmark::State& state) {
  const Index bytes = state.range(0) << 20, skew = state.range(1);
  const Buffer from = allocate(static_cast<From>(state.range(2)), bytes + 4096);
  const Buffer to = allocate_host(bytes);
  std::memset(from.data(), 1, static_cast<std::size_t>(from.bytes()));
  std::memset(to.data(), 2, static_cast<std::size_t>(to.bytes()));
  std::vector<double> plain, fused, hash;
  for (auto _ : state) {
    plain.push_back(cpu_seconds([&] {
      std::memcpy(to.data(), from.data() + skew, static_cast<std::size_t>(bytes));
      benchmark::ClobberMemory();
    }));
    fused.push_back(cpu_seconds([&] {
      for (Index at = 0; at < bytes; at += block_bytes) {
        const Bytes part = {from.data() + skew + at, block_bytes};
        benchmark::DoNotOptimize(copy_and_checksum({&part, 1}, to.data() + at));
      }
    }));
    hash.push_back(cpu_seconds([&] {
      for (Index at = 0; at < bytes; at += block_bytes)
        benchmark::DoNotOptimize(checksum(from.data() + skew + at, block_bytes));
    }));
    state.SetIterationTime(fused.back());
  }
  const double gigabytes = static_cast<double>(bytes) * 1e-9;
  state.counters["memcpy_GB/s"] = gigabytes / median(plain);
  state.counters["fused_GB/s"] = gigabytes / median(fused);
  state.counters["checksum_GB/s"] = gigabytes / median(hash);
  state.counters["fused/memcpy"] = median(fused) / median(plain);
}
BENCHMARK(copy_with_checksum)
    ->ArgNames({"MiB", "skew", "shared"})
    ->Args({256, 0, 0})
    ->Args({512, 0, 0})
    ->Args({512, 20, 0})
    ->Args({256, 0, 1})
    ->Args({512, 0, 1})
    ->Iterations(9)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace trireme

BENCHMARK_MAIN();
