// What benchmarks on a GPU share: device arrays, and the time of a launch while many of them are
// queued.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trireme/core/bf16.h"
#include "trireme/core/dtype.h"
#include "trireme/core/random.h"
#include "trireme/kernels/kernels.h"

#include "kernels/cuda.h"

namespace trireme::test {

/// Host clock over batches of queued launches. It waits for the stream only between batches, so
/// that the time to launch is hidden behind the kernels; kernels of less than some 5 us show the
/// time to launch instead.
struct TimingOptions {
  double batch_seconds = 0.03;  // of queued launches
  int batches = 5;              // the median counts
};

/// Seconds of one launch, after a warm-up: the median, least and most of the batches.
struct Timing {
  double median, least, most;
  int batches;
};

/// `, "ms_min": ..., "ms_max": ..., "batches": ...` of a line of JSON.
inline std::string spread_json(const Timing& timing) {
  char text[96];
  std::snprintf(text, sizeof(text), ",\"ms_min\":%.5f,\"ms_max\":%.5f,\"batches\":%d",
                timing.least * 1e3, timing.most * 1e3, timing.batches);
  return text;
}

class GpuBench {
 public:
  /// `gemm_cache`: as CudaOptions. Throws: Error that says why no GPU can be used.
  /// TRIREME_CUDA_MODULE: another module than the installed one.
  explicit GpuBench(const std::string& gemm_cache = {}, TimingOptions timing = {})
      : timing_(timing),
        device_(open_cuda(first_gpu(gemm_cache))),
        stream_(device_->make_stream()) {}

  Device& device() { return *device_; }
  Stream& stream() { return *stream_; }
  const Kernels& kernels() { return device_->kernels(); }

  /// `count` random elements in [low, high), at an address that is a multiple of 256. Lives as long
  /// as the bench.
  void* make(DType dtype, Index count, float low = -1, float high = 1) {
    constexpr Index most = Index{1} << 20;  // the same values again after these
    const Random random = random_for(1, "benchmark");
    const Index distinct = std::min(count, most);
    std::vector<float> floats(static_cast<std::size_t>(distinct));
    for (Index i = 0; i < distinct; ++i)
      floats[static_cast<std::size_t>(i)] = low + (high - low) * random.uniform(i);
    std::vector<Bf16> halves(dtype == DType::bf16 ? floats.size() : 0);
    for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = to_bf16(floats[i]);
    return fill(halves.empty() ? static_cast<const void*>(floats.data()) : halves.data(), distinct,
                count, halves.empty() ? 4 : 2);
  }
  float* floats(Index count, float low = -1, float high = 1) {
    return static_cast<float*>(make(DType::f32, count, low, high));
  }
  /// Zero-filled bytes.
  void* bytes(Index count) {
    buffers_.push_back(device_->allocate(std::max(count, Index{1})));
    return buffers_.back().data();
  }
  /// Tokens below `vocabulary`, each about as often.
  static std::vector<std::int32_t> token_values(Index count, Index vocabulary) {
    const Random random = random_for(1, "tokens");
    std::vector<std::int32_t> values(static_cast<std::size_t>(count));
    for (Index i = 0; i < count; ++i)
      values[static_cast<std::size_t>(i)] =
          static_cast<std::int32_t>(random.uniform(i) * static_cast<float>(vocabulary));
    return values;
  }
  std::int32_t* tokens(Index count, Index vocabulary) {
    const std::vector<std::int32_t> values = token_values(count, vocabulary);
    return static_cast<std::int32_t*>(fill(values.data(), count, count, 4));
  }
  /// Frees what make() made.
  void clear() { buffers_.clear(); }

  Timing time(const std::function<void()>& launch) {
    launch();  // what is done once: loading the kernel, choosing an algorithm
    const double once = batch(launch, 1);
    const int count =
        std::clamp(static_cast<int>(timing_.batch_seconds / std::max(once, 1e-7)), 1, 2000);
    std::vector<double> times(static_cast<std::size_t>(timing_.batches));
    for (double& time : times) time = batch(launch, count) / count;
    std::sort(times.begin(), times.end());
    return {times[times.size() / 2], times.front(), times.back(), timing_.batches};
  }

 private:
  static CudaOptions first_gpu(const std::string& gemm_cache) {
    CudaOptions options;
    options.gemm_cache = gemm_cache;
    if (const char* module = std::getenv("TRIREME_CUDA_MODULE")) options.module = module;
    return options;
  }
  double batch(const std::function<void()>& launch, int count) {
    stream_->synchronize();
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < count; ++i) launch();
    stream_->synchronize();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  void* fill(const void* host, Index distinct, Index count, Index element_bytes) {
    auto* data = static_cast<std::byte*>(bytes(count * element_bytes));
    for (Index at = 0; at < count; at += distinct)
      stream_->copy(data + at * element_bytes, host,
                    std::min(distinct, count - at) * element_bytes);
    stream_->synchronize();
    return data;
  }

  TimingOptions timing_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::vector<Buffer> buffers_;
};

}  // namespace trireme::test
