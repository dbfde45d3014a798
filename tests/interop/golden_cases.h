// What transformers computed in float64 of a model (golden/make): loss, logits and gradients. The
// weights and tokens, which come from a formula on both sides.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/core.h>
#include <gtest/gtest.h>

#include "runtime/core/json/json.h"

namespace trireme::test {

inline constexpr Index golden_batch = 8, golden_sequence = 24, golden_vocabulary = 61;

/// FNV-1a of a name.
inline std::uint64_t golden_seed(const std::string& name) {
  std::uint64_t x = 0xcbf29ce484222325u;
  for (const char c : name) x = (x ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return x;
}

/// Number i of a seed, in [-1, 1): SplitMix64.
inline double golden_number(std::uint64_t seed, Index i) {
  std::uint64_t x = seed + (static_cast<std::uint64_t>(i) + 1) * 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  x ^= x >> 31;
  return static_cast<double>(x >> 40) / (1 << 23) - 1;
}

/// Element i of a logical tensor with so many dims.
inline float golden_weight(const std::string& name, int dims, Index i) {
  const double x = golden_number(golden_seed(name), i);
  if (dims == 2) return static_cast<float>(0.3 * x);
  return static_cast<float>(0.25 * x + (name.ends_with("weight") ? 1 : 0));
}

/// Of all samples, and one more: each predicts the next.
inline std::vector<std::int32_t> golden_tokens() {
  const std::uint64_t seed = golden_seed("tokens");
  std::vector<std::int32_t> all;
  for (Index i = 0; i <= golden_batch * golden_sequence; ++i)
    all.push_back(static_cast<std::int32_t>((golden_number(seed, i) + 1) / 2 * golden_vocabulary));
  return all;
}

/// The files of golden/make, in the tree or in the directory TRIREME_GOLDEN.
inline std::vector<std::string> golden_cases() {
  const char* more = std::getenv("TRIREME_GOLDEN");
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(
           more != nullptr ? more : TRIREME_SOURCE_DIR "/tests/interop/golden"))
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

inline std::string name_of_case(const testing::TestParamInfo<std::string>& file) {
  return std::filesystem::path(file.param).stem();
}

/// One file. The limits are those for computing in f32. A gradient that is zero, as that of a bias
/// of keys beside learned positions, is the rounding error of sums that cancel: up to 1.4e-8 of all
/// gradients in 40 random models of tests/interop/parity, and 1.1e-8 in PyTorch's own attention in
/// blocks (sdpa).
class GoldenCase {
 public:
  explicit GoldenCase(const std::string& file) {
    std::ifstream in(file);
    json_ = parse_json(std::string{std::istreambuf_iterator<char>(in), {}});
    for (const auto& [name, of_one] : gradients()) whole_ += std::pow(numbers(of_one)[0], 2);
    whole_ = std::sqrt(whole_);
  }

  std::string config() const { return to_text(*json_.find("config")); }

  /// `logits`: of all tokens. `layout`: for the report.
  void expect_logits(const std::string& layout, const std::vector<float>& logits) const {
    const std::vector<double> expected = numbers(*json_.find("logits"));
    ASSERT_EQ(logits.size(), std::size_t(golden_batch * golden_sequence * golden_vocabulary))
        << layout;
    ASSERT_EQ(expected.size(), 64u);
    double most = 0, largest = 0;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      const double logit = logits[i * (logits.size() / 64)];
      // Fails for NaN, which a maximum leaves out.
      EXPECT_NEAR(logit, expected[i], 1e-5) << layout << ": " << i;
      most = std::max(most, std::abs(logit - expected[i]));
      largest = std::max(largest, std::abs(expected[i]));
    }
    EXPECT_GT(largest, 0.5);  // of a model that is not too small to say anything
    fmt::print("{}: logits differ by {:.1e}\n", layout, most);
  }

  /// Loss and gradients of the mean of `tokens` tokens. `layout`: for the report.
  void expect_training(const std::string& layout, double loss,
                       const std::map<std::string, std::vector<float>>& found,
                       double tokens) const {
    const double expected = numbers(*json_.find("loss"))[0] / tokens;
    EXPECT_NEAR(loss, expected, 1e-7 * expected) << layout;
    EXPECT_EQ(found.size(), gradients().size()) << layout;
    std::pair<double, std::string> most;
    for (const auto& [name, of_one] : gradients()) {
      const auto gradient = found.find(name);
      ASSERT_NE(gradient, found.end()) << layout << ": " << name;
      const double difference = difference_of(name, numbers(of_one), gradient->second, tokens);
      const bool is_zero = numbers(of_one)[0] < 1e-12 * whole_;
      EXPECT_LE(difference, is_zero ? 3e-5 : 1e-5) << layout << ": " << name;
      most = std::max(most, std::pair(difference, name));
    }
    fmt::print("{}: loss differs by {:.1e}, gradients by {:.1e} ({})\n", layout,
               std::abs(loss - expected) / expected, most.first, most.second);
  }

 private:
  const Json::Object& gradients() const {
    return std::get<Json::Object>(json_.find("gradients")->value);
  }

  static std::vector<double> numbers(const Json& json) {
    if (const auto* whole = std::get_if<Index>(&json.value)) return {static_cast<double>(*whole)};
    if (const auto* real = std::get_if<double>(&json.value)) return {*real};
    std::vector<double> all;
    for (const Json& each : std::get<Json::Array>(json.value)) all.push_back(numbers(each)[0]);
    return all;
  }

  /// The larger of the difference of the norms, and the norm of the difference as its products with
  /// random vectors show it, whose elements have the variance 1/3. In units of the norm, or of a
  /// thousandth of that of all gradients, with which those that vanish are compared. `expected`:
  /// the norm, then the products.
  double difference_of(const std::string& name, const std::vector<double>& expected,
                       const std::vector<float>& gradient, double tokens) const {
    double square = 0, apart = 0;
    for (const float element : gradient) square += std::pow(element * tokens, 2);
    for (std::size_t k = 1; k < expected.size(); ++k) {
      const std::uint64_t seed = golden_seed(fmt::format("{} probe {}", name, k - 1));
      double product = 0;
      for (std::size_t i = 0; i < gradient.size(); ++i)
        product += gradient[i] * tokens * golden_number(seed, static_cast<Index>(i));
      apart += 3 * std::pow(product - expected[k], 2);
    }
    apart = std::sqrt(apart / static_cast<double>(expected.size() - 1));
    return std::max(apart, std::abs(std::sqrt(square) - expected[0])) /
           std::max(expected[0], 1e-3 * whole_);
  }

  Json json_;
  double whole_ = 0;  // norm of all gradients together
};

}  // namespace trireme::test
