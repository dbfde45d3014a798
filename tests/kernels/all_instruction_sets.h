// Runs a kernel on every instruction set of this machine with one, two and three threads: results
// must match an fp64 reference, and be equal bit for bit whatever the number of threads.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/core/bf16.h"
#include "trireme/core/error.h"
#include "trireme/core/random.h"
#include "trireme/kernels/device.h"
#include "trireme/kernels/kernels.h"

namespace trireme {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

/// Uniform in [low, high), a function of `name`.
inline Floats random_values(Index count, const char* name, float low = -1, float high = 1) {
  const Random random = random_for(1, name);
  Floats x(static_cast<std::size_t>(count));
  for (Index i = 0; i < count; ++i)
    x[static_cast<std::size_t>(i)] = low + (high - low) * random.uniform(i);
  return x;
}

inline std::vector<std::int32_t> random_tokens(Index count, Index vocabulary, const char* name) {
  const Random random = random_for(1, name);
  std::vector<std::int32_t> x(static_cast<std::size_t>(count));
  for (Index i = 0; i < count; ++i)
    x[static_cast<std::size_t>(i)] =
        static_cast<std::int32_t>(random.bits(i) % static_cast<std::uint32_t>(vocabulary));
  return x;
}

/// x, rounded to the nearest.
inline std::vector<Bf16> bf16_of(const Floats& x) {
  std::vector<Bf16> y(x.size());
  std::transform(x.begin(), x.end(), y.begin(), to_bf16);
  return y;
}
inline Floats floats_of(const std::vector<Bf16>& x) {
  Floats y(x.size());
  std::transform(x.begin(), x.end(), y.begin(), to_float);
  return y;
}

inline Doubles to_double(const Floats& x) { return Doubles(x.begin(), x.end()); }

inline std::vector<InstructionSet> instruction_sets() {
  std::vector<InstructionSet> sets;
  for (InstructionSet set :
       {InstructionSet::portable, InstructionSet::avx2, InstructionSet::avx512})
    if (available(set)) sets.push_back(set);
  return sets;
}

/// Errors count relative to the largest expected value, or to `scale` where that is larger.
inline void expect_near(const Floats& got, const Doubles& expected, double tolerance,
                        const std::string& where, double scale) {
  ASSERT_EQ(got.size(), expected.size()) << where;
  double largest = scale;
  for (double e : expected) largest = std::max(largest, std::fabs(e));
  const double allowed = tolerance * largest + 1e-30;
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_LE(std::fabs(static_cast<double>(got[i]) - expected[i]), allowed)
        << where << ", element " << i << ": " << got[i] << " instead of " << expected[i];
}

inline bool same_bits(const Floats& a, const Floats& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

/// What one kernel reads and writes, with activations and weights stored as `dtype`, f32 or bf16.
class Arrays {
 public:
  explicit Arrays(DType dtype_) : dtype(dtype_) {}
  const DType dtype;

  /// Activations or weights, rounded to bf16 in either case, so that both types begin with the same
  /// numbers.
  void* put(const Floats& values) {
    Array& array = arrays_.emplace_back(Array{true, floats_of(bf16_of(values)), {}});
    if (dtype == DType::f32) return array.floats.data();
    array.halves = bf16_of(values);
    return array.halves.data();
  }
  /// What is fp32 in any case.
  float* put_f32(const Floats& values) {
    return arrays_.emplace_back(Array{false, values, {}}).floats.data();
  }
  /// All arrays as they are now; activations and weights rounded to bf16.
  std::vector<Floats> rounded() const {
    std::vector<Floats> all;
    for (const Array& array : arrays_)
      all.push_back(!array.typed          ? array.floats
                    : dtype == DType::f32 ? floats_of(bf16_of(array.floats))
                                          : floats_of(array.halves));
    return all;
  }

 private:
  struct Array {
    bool typed;  // stored as `dtype`
    Floats floats;
    std::vector<Bf16> halves;
  };
  std::vector<Array> arrays_;
};

/// `run` puts its arrays and calls one kernel: in bf16 it must write what it writes in f32, rounded
/// once.
inline void expect_rounded_once(const std::function<void(Stream&, Arrays&)>& run) {
  for (InstructionSet set : instruction_sets()) {
    const auto device = open_cpu({2, set});
    const auto stream = device->make_stream();
    Arrays floats(DType::f32), halves(DType::bf16);
    run(*stream, floats);
    run(*stream, halves);
    const std::vector<Floats> expected = floats.rounded(), got = halves.rounded();
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_TRUE(same_bits(got[i], expected[i])) << name(set) << ", array " << i;
  }
}

/// `run` is called with a fresh stream and returns what the kernel wrote.
inline void expect_everywhere(const std::function<Floats(Stream&)>& run, const Doubles& expected,
                              double tolerance, double scale = 0,
                              const std::vector<int>& numbers_of_threads = {1, 2, 3}) {
  for (InstructionSet set : instruction_sets()) {
    Floats first;
    for (int threads : numbers_of_threads) {
      const auto device = open_cpu({threads, set});
      const auto stream = device->make_stream();
      const Floats got = run(*stream);
      const std::string where =
          std::string(name(set)) + ", " + std::to_string(threads) + " threads";
      expect_near(got, expected, tolerance, where, scale);
      if (threads == numbers_of_threads.front()) first = got;
      EXPECT_TRUE(same_bits(got, first)) << where << " differ from " << numbers_of_threads.front();
    }
  }
}

}  // namespace trireme
