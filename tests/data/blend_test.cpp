// Blends of several sources: their shares, their weights, and their paths on the command line.
#include <cmath>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/data/token_source.h"

#include "tests/support/scratch_directory.h"

namespace trireme {
namespace {

// Counts what is read from it; fill returns its own sample number.
class CountingSource final : public DataSource {
 public:
  Index fill(Index sample, std::span<const Tensor>) override { return sample; }
};

std::vector<std::unique_ptr<DataSource>> counting(std::size_t count) {
  std::vector<std::unique_ptr<DataSource>> sources;
  for (std::size_t i = 0; i < count; ++i) sources.push_back(std::make_unique<CountingSource>());
  return sources;
}

TEST(BlendedSource, EverySourceHasItsShareWithinOneSampleAtEveryMoment) {
  const std::vector<std::vector<double>> mixes{{1},
                                               {1, 1},
                                               {0.3, 0.7},
                                               {5, 3, 1},
                                               {0.123, 0.456, 0.421},
                                               {1, 1, 1, 1, 1, 1, 1},
                                               {100, 1, 1, 1, 1},
                                               {0.5, 0.25, 0.125, 0.0625, 0.0625},
                                               {97, 2, 1},
                                               {M_PI, M_E, 1}};
  for (const std::vector<double>& weights : mixes) {
    const BlendedSource blend(counting(weights.size()), weights);
    double sum = 0;
    for (const double weight : weights) sum += weight;
    std::vector<Index> count(weights.size(), 0);
    for (Index n = 0; n < 20000; ++n) {
      const BlendedSource::Pick pick = blend.pick(n);
      ASSERT_EQ(pick.sample, count[static_cast<std::size_t>(pick.source)]++);
      for (std::size_t i = 0; i < weights.size(); ++i) {
        const double share = weights[i] / sum * static_cast<double>(n + 1);
        // 1/65536 of the sum: how exactly irrational weights are taken
        ASSERT_LT(std::abs(static_cast<double>(count[i]) - share),
                  1 + static_cast<double>(n) / 65536)
            << "source " << i << " of " << weights.size() << " after " << n + 1;
      }
    }
  }
}

TEST(BlendedSource, FarSamplesAreFoundWithoutTheOnesBefore) {
  const BlendedSource blend(counting(3), {0.5, 0.3, 0.2});
  EXPECT_EQ(
      blend.positions(10'000'000'000),
      (std::vector<SourcePosition>{
          {"samples", 5'000'000'000}, {"samples", 3'000'000'000}, {"samples", 2'000'000'000}}));
  for (const Index n : {Index{9'999'999'999}, Index{123'456'789'012}}) {
    const BlendedSource::Pick pick = blend.pick(n);
    const auto before = blend.positions(n), after = blend.positions(n + 1);
    for (int i = 0; i < 3; ++i) {
      const auto s = static_cast<std::size_t>(i);
      EXPECT_EQ(after[s].samples - before[s].samples, i == pick.source ? 1 : 0);
    }
    EXPECT_EQ(pick.sample, before[static_cast<std::size_t>(pick.source)].samples);
  }
}

TEST(BlendedSource, PassesTheSampleOnToItsSource) {
  BlendedSource blend(counting(2), {1, 3});
  for (Index n = 0; n < 100; ++n) EXPECT_EQ(blend.fill(n, {}), blend.pick(n).sample);
}

TEST(BlendedSource, BadWeightsAreNamed) {
  const ScratchDirectory folder;
  const auto message = [&](std::vector<double> weights) {
    return message_of(folder, [&] { BlendedSource(counting(2), weights); });
  };
  EXPECT_EQ(message({1, 0}), "weight 0 of a data source is not > 0");
  EXPECT_EQ(message({1, -1}), "weight -1 of a data source is not > 0");
  EXPECT_EQ(message({1}), "2 sources with 1 weights");
  EXPECT_EQ(message({1, 1e-9}),
            "weight 1e-09 of data source 1 is less than 1/65536 of all weights, 1; "
            "leave it out or raise it");
}

TEST(DataPath, IsOnePrefixOrPairs) {
  const ScratchDirectory folder;
  EXPECT_EQ(parse_data_path({"a"}).at(0).prefix, "a");
  const auto pairs = parse_data_path({"0.3", "a", "7e-1", "b"});
  EXPECT_EQ(pairs.at(1).prefix, "b");
  EXPECT_EQ(pairs.at(1).weight, 0.7);
  for (const std::vector<std::string>& bad : std::vector<std::vector<std::string>>{
           {}, {"1", "a", "2"}, {"a", "b"}, {"0", "a"}, {"-1", "a"}})
    EXPECT_EQ(message_of(folder, [&] { parse_data_path(bad); }),
              "--data-path takes one PREFIX, or pairs WEIGHT PREFIX WEIGHT PREFIX ... with "
              "weights > 0");
}

TEST(TokenParts, AreOpenedFromSeveralFilesAndMissingOnesSayWhy) {
  const ScratchDirectory folder;
  for (const char* name : {"a", "b"}) {
    TokenFileWriter writer(folder / name, TokenType::u8);
    writer.add(std::vector<std::int64_t>(1000, *name));
    writer.end_document();
    writer.finish();
  }
  const std::vector<WeightedPath> paths{{1, folder / "a"}, {3, folder / "b"}};
  const TokenOptions options{.sequence_length = 20, .vocabulary = 256, .seed = 1};
  const auto parts = open_token_parts(paths, parse_split("95,5"), options);
  ASSERT_TRUE(parts[0].source);
  ASSERT_TRUE(parts[1].source);
  EXPECT_FALSE(parts[2].source);
  EXPECT_EQ(parts[2].absent, "--split has 0 for 'test'");
  std::vector<std::int32_t> row(20);
  const Tensor out[] = {Tensor(row.data(), {20}, DType::i32), Tensor()};
  int from_b = 0;
  for (Index n = 0; n < 400; ++n) {
    parts[0].source->fill(n, out);
    from_b += row[0] == 'b';
  }
  EXPECT_EQ(from_b, 300);
  const auto tight = open_token_parts({{1, folder / "a"}}, parse_split("99,1"), options);
  EXPECT_TRUE(tight[0].source);
  EXPECT_EQ(
      message_of(folder, [&] { throw Error(tight[1].absent); }),
      "a: its part 'valid' has 10 tokens; a sample takes 21; use more data, a larger share in "
      "--split, or a shorter --seq-length");
}

}  // namespace
}  // namespace trireme
