// The models of Hugging Face's families against what transformers computed: loss, logits and all
// gradients (golden/make). Weights and tokens come from a formula on both sides. TRIREME_GOLDEN: a
// directory of more cases (tests/interop/parity).
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>

#include "trireme/models/transformer.h"

#include "runtime/core/json.h"
#include "runtime/interop/hf_config.h"
#include "tests/nn/run_graph.h"

namespace trireme::interop {
namespace {

constexpr Index batch = 2, sequence = 24, vocabulary = 61;

/// Number i of a name, in [-1, 1): SplitMix64 of FNV-1a.
double number(const std::string& name, Index i) {
  std::uint64_t x = 0xcbf29ce484222325u;
  for (const char c : name) x = (x ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  x += (static_cast<std::uint64_t>(i) + 1) * 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  x ^= x >> 31;
  return static_cast<double>(x >> 40) / (1 << 23) - 1;
}

float weight(const ParameterPart& part, Index i) {
  const double x = number(part.name, i);
  if (part.global.dims() == 2) return static_cast<float>(0.3 * x);
  return static_cast<float>(0.25 * x + (part.name.ends_with("weight") ? 1 : 0));
}

std::vector<std::int32_t> tokens(const std::string& name) {
  std::vector<std::int32_t> all;
  for (Index i = 0; i < batch * sequence; ++i)
    all.push_back(static_cast<std::int32_t>((number(name, i) + 1) / 2 * vocabulary));
  return all;
}

std::vector<std::string> cases() {
  const char* more = std::getenv("TRIREME_GOLDEN");
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(
           more != nullptr ? more : TRIREME_SOURCE_DIR "/tests/interop/golden"))
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
}

std::string name_of(const testing::TestParamInfo<std::string>& file) {
  return std::filesystem::path(file.param).stem();
}

Json read(const std::string& file) {
  std::ifstream in(file);
  return parse_json(std::string{std::istreambuf_iterator<char>(in), {}});
}

double real(const Json& json) {
  const auto* whole = std::get_if<Index>(&json.value);
  return whole != nullptr ? static_cast<double>(*whole) : std::get<double>(json.value);
}

class Golden : public testing::TestWithParam<std::string> {
 protected:
  Golden() {
    std::vector<std::string> problems;
    config_ = parse_hf_config(to_text(*golden_.find("config")), problems).model;
    EXPECT_TRUE(problems.empty()) << problems.front();
    config_.seq_length = sequence;
  }

  RunOptions options(int tensor_size) {
    const auto input = [](std::vector<std::int32_t>& values) {
      return Tensor(values.data(), {batch, sequence}, DType::i32);
    };
    RunOptions options{.tensor_size = tensor_size,
                       .inputs = {{"tokens", input(tokens_)}, {"targets", input(targets_)}}};
    options.initial = weight;
    return options;
  }

  const Json golden_ = read(GetParam());
  TransformerConfig config_;
  std::vector<std::int32_t> tokens_ = tokens("tokens"), targets_ = tokens("targets");
};
INSTANTIATE_TEST_SUITE_P(Families, Golden, testing::ValuesIn(cases()), name_of);

TEST_P(Golden, LogitsAreThoseOfTransformers) {
  RunOptions forward = options(1);
  forward.plan.mode = PlanOptions::Mode::forward_only;
  const std::vector<float> logits =
      run_graph([&](Graph& g) { return build_transformer_logits(g, config_, batch); }, forward)
          .result;
  const auto& expected = std::get<Json::Array>(golden_.find("logits")->value);
  ASSERT_EQ(logits.size(), std::size_t{batch * sequence * vocabulary});
  ASSERT_EQ(expected.size(), 64u);
  double largest = 0;
  for (const Json& logit : expected) largest = std::max(largest, std::abs(real(logit)));
  EXPECT_GT(largest, 1);
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(logits[i * (logits.size() / 64)], real(expected[i]), 3e-6 * largest) << i;
}

/// Of the norm of a gradient, and of its product with random numbers.
constexpr double tolerance = 1e-5;

// A gradient that vanishes, as that of a bias that no position turns, is compared with all of them.
TEST_P(Golden, LossAndGradientsAreThoseOfTransformers) {
  const auto& gradients = std::get<Json::Object>(golden_.find("gradients")->value);
  const auto norm_and_product = [](const Json& json) {
    const auto& pair = std::get<Json::Array>(json.value);
    return std::pair(real(pair[0]), real(pair[1]));
  };
  double all = 0;
  for (const auto& [name, json] : gradients) all += std::pow(norm_and_product(json).first, 2);
  for (const int ranks : {1, 2}) {
    if (config_.kv_heads() % ranks != 0) continue;
    const GraphRun run = run_graph(
        [&](Graph& g) { return build_transformer_loss(g, config_, batch); }, options(ranks));
    const double loss = real(*golden_.find("loss"));
    EXPECT_NEAR(run.loss, loss, 1e-6 * loss);
    ASSERT_EQ(run.gradients.size(), gradients.size());
    for (const auto& [name, json] : gradients) {
      const auto found = run.gradients.find(name);
      ASSERT_NE(found, run.gradients.end()) << name;
      double square = 0, product = 0, probe_square = 0;
      for (std::size_t i = 0; i < found->second.size(); ++i) {
        const double g = found->second[i];
        const double probe = number(name + " probe", static_cast<Index>(i));
        square += g * g;
        product += g * probe;
        probe_square += probe * probe;
      }
      const auto [expected_norm, expected_product] = norm_and_product(json);
      const double size = std::max(expected_norm, 1e-3 * std::sqrt(all));
      EXPECT_NEAR(std::sqrt(square), expected_norm, tolerance * size) << name << ", " << ranks;
      EXPECT_NEAR(product, expected_product, tolerance * size * std::sqrt(probe_square))
          << name << ", " << ranks;
    }
  }
}

}  // namespace
}  // namespace trireme::interop
