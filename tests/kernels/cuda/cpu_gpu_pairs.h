// The same call on the CPU and on a GPU (the host emulation, or a real one): what both wrote must
// agree.
#pragma once

#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/core/bf16.h"
#include "trireme/core/error.h"
#include "trireme/core/step_scalars.h"
#include "trireme/kernels/device.h"
#include "trireme/kernels/kernels.h"

namespace trireme::test {

using Floats = std::vector<float>;

/// What activations and weights are stored in.
inline const std::vector<DType> storage_types = {DType::f32, DType::bf16};
/// Numbers of elements with which loops of blocks and vectors end differently, and elements before
/// the first one.
inline const std::vector<Index> counts = {0, 1, 3, 4, 31, 1027, 5000}, shifts = {0, 1};

/// The GPU of this test program.
std::unique_ptr<Device> open_gpu();
/// Runs `f` in every order of threads that the emulation knows; once on a real GPU.
void in_every_order(const std::function<void()>& f);

/// One element of an array, as a double, and the type that it was stored in.
struct Element {
  double value;
  DType stored;
  bool operator==(const Element&) const = default;
};

/// One device with what a call reads and writes. Arrays are compared in the order in which they
/// were put.
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

  /// The same of floats that are stored as `dtype`, f32 or bf16 (rounded).
  void* put(const Floats& values, DType dtype, Index shift = 0) {
    if (dtype == DType::f32) return put(values, shift);
    std::vector<Bf16> rounded;
    for (const float value : values) rounded.push_back(to_bf16(value));
    return put(rounded, shift);
  }

  std::vector<Element> results() {
    std::vector<Element> all;
    for (const Array& array : arrays_) (this->*array.append)(array, all);
    return all;
  }

 private:
  struct Array {
    Buffer memory;
    Index bytes, shift_bytes;
    void (Bench::*append)(const Array&, std::vector<Element>&);
    std::byte* data() const { return memory.data() + shift_bytes; }
  };
  /// Doubles, integers and bf16 are compared as such, everything else as floats.
  template <class Stored>
  void append(const Array& array, std::vector<Element>& all) {
    constexpr bool bf16 = std::is_same_v<Stored, Bf16>;
    constexpr bool itself = bf16 || std::is_same_v<Stored, double> || std::is_integral_v<Stored>;
    using T = std::conditional_t<itself, Stored, float>;
    std::vector<T> host(static_cast<std::size_t>(array.bytes) / sizeof(T));
    stream_->copy(host.data(), array.data(), array.bytes);
    stream_->synchronize();
    for (const T x : host)
      if constexpr (bf16)
        all.push_back({static_cast<double>(to_float(x)), DType::bf16});
      else
        all.push_back({static_cast<double>(x), DTypeOf<T>::value});
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

/// How far apart elements may be that are stored in bf16, beyond the tolerance of fp32: results
/// that differ by a rounding of fp32 are the same bf16 number, but for the few that lie next to the
/// middle between two.
struct Bf16Tolerance {
  double units = 1;     // of the last place, by which one element may differ
  double share = 0.02;  // of all bf16 elements, which may differ at all; two always may
};
inline constexpr Bf16Tolerance exactly = {0, 0};

/// The distance of bf16 numbers around x.
inline double bf16_unit(double x) { return std::ldexp(1.0, std::max(std::ilogb(x), -126) - 7); }

/// Every element may differ by `tolerance` times the largest one (or 1), those in bf16 also as
/// `bf16` says.
inline void expect_close(const std::vector<Element>& got, const std::vector<Element>& expected,
                         double tolerance, const Bf16Tolerance& bf16) {
  ASSERT_EQ(got.size(), expected.size());
  double largest = 1, in_bf16 = 0, differ = 0;
  for (const Element& e : expected)
    if (std::isfinite(e.value)) largest = std::max(largest, std::fabs(e.value));
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double g = got[i].value, e = expected[i].value;
    const bool rounded = expected[i].stored == DType::bf16;
    if (rounded) ++in_bf16;
    if (g == e) continue;
    if (rounded) ++differ;
    const double unit = rounded && std::isfinite(e) ? bf16.units * bf16_unit(e) : 0;
    ASSERT_TRUE(std::fabs(g - e) <= tolerance * largest + unit)
        << "element " << i << ": " << g << " instead of " << e;
  }
  EXPECT_LE(differ, std::max(2.0, bf16.share * in_bf16)) << "of " << in_bf16 << " bf16 elements";
}

/// A copy on the device.
inline const StepScalars* put_scalars(Bench& b, const StepScalars& scalars) {
  std::vector<std::byte> bytes(sizeof scalars);
  std::memcpy(bytes.data(), &scalars, sizeof scalars);
  return reinterpret_cast<const StepScalars*>(b.put(bytes));
}

/// `run` puts its arrays and calls one kernel. The devices agree as `expect_close` says; the GPU's
/// results have the same bits in every order of threads.
inline void expect_agree(const std::function<void(Bench&)>& run, double tolerance,
                         const Bf16Tolerance& bf16 = {}) {
  Bench cpu(open_cpu());
  run(cpu);
  const std::vector<Element> expected = cpu.results();
  std::vector<Element> first;
  in_every_order([&] {
    Bench gpu(open_gpu());
    run(gpu);
    const std::vector<Element> got = gpu.results();
    expect_close(got, expected, tolerance, bf16);
    if (first.empty()) first = got;
    EXPECT_TRUE(got == first) << "the order of threads shows";
  });
}

}  // namespace trireme::test
