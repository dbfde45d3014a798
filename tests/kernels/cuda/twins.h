// The same call on the CPU and on a GPU (the host emulation, or a real one): what both wrote must agree.
#pragma once

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/core/random.h"
#include "trireme/kernels/device.h"
#include "trireme/kernels/kernels.h"

namespace trireme::test {

using Floats = std::vector<float>;

/// The GPU of this test program.
std::unique_ptr<Device> open_gpu();
/// Runs `f` in every order of threads that the emulation knows; once on a real GPU.
void in_every_order(const std::function<void()>& f);

/// One device with what a call reads and writes. Arrays are compared in the order in which they were put.
class Bench {
 public:
  explicit Bench(std::unique_ptr<Device> device)
      : device_(std::move(device)), stream_(device_->make_stream()) {}

  Stream& stream() { return *stream_; }
  const Kernels& kernels() { return device_->kernels(); }

  /// A copy on the device, `shift` elements behind 16-byte alignment.
  template <class T>
  T* put(const std::vector<T>& values, Index shift = 0) {
    const auto bytes = static_cast<Index>(values.size() * sizeof(T));
    Array array{device_->allocate(bytes + (shift + 1) * static_cast<Index>(sizeof(T))), bytes,
                shift * static_cast<Index>(sizeof(T)), &Bench::append<T>};
    stream_->copy(array.data(), values.data(), bytes);
    stream_->synchronize();
    arrays_.push_back(std::move(array));
    return reinterpret_cast<T*>(arrays_.back().data());
  }

  std::vector<double> results() {
    std::vector<double> all;
    for (const Array& array : arrays_) (this->*array.append)(array, all);
    return all;
  }

 private:
  struct Array {
    Buffer memory;
    Index bytes, shift_bytes;
    void (Bench::*append)(const Array&, std::vector<double>&);
    std::byte* data() const { return memory.data() + shift_bytes; }
  };
  /// Doubles and integers are compared as such, everything else as floats.
  template <class Stored>
  void append(const Array& array, std::vector<double>& all) {
    constexpr bool itself = std::is_same_v<Stored, double> || std::is_integral_v<Stored>;
    using T = std::conditional_t<itself, Stored, float>;
    std::vector<T> host(static_cast<std::size_t>(array.bytes) / sizeof(T));
    stream_->copy(host.data(), array.data(), array.bytes);
    stream_->synchronize();
    all.insert(all.end(), host.begin(), host.end());
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::vector<Array> arrays_;
};

inline Floats random_floats(Index count, const char* name, float low = -1, float high = 1) {
  const Random random = random_for(1, name);
  Floats values(static_cast<std::size_t>(count));
  for (Index i = 0; i < count; ++i)
    values[static_cast<std::size_t>(i)] = low + (high - low) * random.uniform(i);
  return values;
}

/// `run` puts its arrays and calls one kernel. Every element may differ by `tolerance` times the largest one (or 1); the GPU's
/// results have the same bits in every order of threads.
inline void expect_twins(const std::function<void(Bench&)>& run, double tolerance) {
  Bench cpu(open_cpu());
  run(cpu);
  const std::vector<double> expected = cpu.results();
  double largest = 1;
  for (const double e : expected)
    if (std::isfinite(e)) largest = std::max(largest, std::fabs(e));
  std::vector<double> first;
  in_every_order([&] {
    Bench gpu(open_gpu());
    run(gpu);
    const std::vector<double> got = gpu.results();
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i)
      ASSERT_TRUE(got[i] == expected[i] || std::fabs(got[i] - expected[i]) <= tolerance * largest)
          << "element " << i << ": " << got[i] << " instead of " << expected[i];
    if (first.empty()) first = got;
    EXPECT_EQ(got, first) << "the order of threads shows";
  });
}

}  // namespace trireme::test
