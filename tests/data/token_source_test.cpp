// The samples of a token file, what they depend on, and its split into parts.
#include "trireme/data/token_source.h"

#include <cmath>
#include <numeric>
#include <set>

#include <gtest/gtest.h>

#include "trireme/core/error.h"

#include "tests/support/scratch_directory.h"

namespace trireme {
namespace {

// `documents` of `length` tokens; the tokens count up from 0, so a token is its own position.
std::shared_ptr<const TokenFile> counting_file(const ScratchDirectory& folder, Index documents,
                                               Index length, const std::string& name = "a") {
  TokenFileWriter writer(folder / name, TokenType::i32);
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(length));
  for (Index d = 0; d < documents; ++d) {
    std::iota(tokens.begin(), tokens.end(), d * length);
    writer.add(tokens);
    writer.end_document();
  }
  writer.finish();
  return std::make_shared<const TokenFile>(folder / name);
}

struct Sample {
  std::vector<std::int32_t> tokens, targets;
  friend bool operator==(const Sample&, const Sample&) = default;
};

Sample sample_of(DataSource& source, Index number, Index length) {
  Sample sample{std::vector<std::int32_t>(static_cast<std::size_t>(length)), {}};
  sample.targets = sample.tokens;
  const Tensor out[] = {Tensor(sample.tokens.data(), {length}, DType::i32),
                        Tensor(sample.targets.data(), {length}, DType::i32)};
  EXPECT_EQ(source.fill(number, out), length);
  return sample;
}

const TokenOptions options{.sequence_length = 5, .vocabulary = 1 << 20, .seed = 3};

TEST(TokenSource, TargetsAreTheTokensAfterAndSamplesOverlapByOne) {
  const ScratchDirectory folder;
  const auto file = counting_file(folder, 4, 11);
  TokenSource source(file, {0, 44}, options, "train");
  EXPECT_EQ(source.epoch_samples(), 8);  // (44 - 1) / 5
  for (Index n = 0; n < 24; ++n) {
    const Sample sample = sample_of(source, n, 5);
    EXPECT_EQ(sample.tokens[0] % 5, 0);
    for (std::size_t i = 0; i < 5; ++i) {
      EXPECT_EQ(sample.tokens[i], sample.tokens[0] + static_cast<int>(i));
      EXPECT_EQ(sample.targets[i], sample.tokens[i] + 1);
    }
  }
}

TEST(TokenSource, AnEpochHasEverySampleOnceAndEpochsDiffer) {
  const ScratchDirectory folder;
  const auto file = counting_file(folder, 10, 51);
  TokenSource source(file, {5, 507}, options, "train");
  std::vector<std::vector<Index>> orders;
  for (Index epoch = 0; epoch < 3; ++epoch) {
    std::vector<Index> order;
    for (Index n = 0; n < source.epoch_samples(); ++n)
      order.push_back(sample_of(source, epoch * source.epoch_samples() + n, 5).tokens[0]);
    const std::set<Index> different(order.begin(), order.end());
    EXPECT_EQ(static_cast<Index>(different.size()), source.epoch_samples());
    EXPECT_EQ(*different.begin(), 5);
    EXPECT_LE(*different.rbegin() + 5, 506);
    orders.push_back(order);
  }
  EXPECT_NE(orders[0], orders[1]);
  EXPECT_NE(orders[1], orders[2]);
}

// Every rank gets the same sample, in whatever order it asks; this is what makes layouts and
// restarts agree.
TEST(TokenSource, ASampleDependsOnSeedNameAndNumberOnly) {
  const ScratchDirectory folder;
  const auto file = counting_file(folder, 10, 51);
  TokenSource source(file, {0, 510}, options, "train"), again(file, {0, 510}, options, "train");
  std::vector<Sample> forwards, backwards;
  for (Index n = 0; n < 250; ++n) forwards.push_back(sample_of(source, n, 5));
  for (Index n = 250; n-- > 0;) backwards.insert(backwards.begin(), sample_of(again, n, 5));
  EXPECT_EQ(forwards, backwards);
  TokenOptions other_seed = options;
  other_seed.seed = 4;
  TokenSource reseeded(file, {0, 510}, other_seed, "train"),
      renamed(file, {0, 510}, options, "valid");
  const auto differs = [&](DataSource& other) {
    for (Index n = 0; n < 10; ++n)
      if (sample_of(other, n, 5) != forwards[static_cast<std::size_t>(n)]) return true;
    return false;
  };
  EXPECT_TRUE(differs(reseeded));
  EXPECT_TRUE(differs(renamed));
}

TEST(TokenSource, SkipsInputsThatAreNotWantedAndChecksThoseThatAre) {
  const ScratchDirectory folder;
  TokenSource source(counting_file(folder, 1, 51), {0, 51}, options, "train");
  std::vector<std::int32_t> row(5, -1);
  const Sample whole = sample_of(source, 2, 5);
  const Tensor nothing, targets(row.data(), {5}, DType::i32);
  const Tensor only_targets[] = {nothing, targets}, neither[] = {nothing, nothing};
  EXPECT_EQ(source.fill(2, only_targets), 5);
  EXPECT_EQ(row, whole.targets);
  EXPECT_EQ(source.fill(2, neither), 5);
  const Tensor short_row[] = {Tensor(row.data(), {4}, DType::i32), nothing};
  EXPECT_EQ(message_of(folder, [&] { source.fill(2, short_row); }),
            "tokens of one sample have the shape (4); the data has sequences of 5");
  const Tensor floats[] = {Tensor(row.data(), {5}, DType::f32), nothing};
  EXPECT_NE(message_of(folder, [&] { source.fill(2, floats); }), "");
  EXPECT_EQ(message_of(folder,
                       [&] {
                         source.fill(2, {&nothing, 1});
                       }),
            "token data has the inputs tokens and targets; the model declares 1 inputs");
}

TEST(TokenSource, TokensOutsideTheVocabularyAreErrorsOfTheirBatch) {
  const ScratchDirectory folder;
  TokenOptions small = options;
  small.vocabulary = 48;
  TokenSource source(counting_file(folder, 1, 51), {0, 51}, small, "train");
  int failed = 0;
  for (Index n = 0; n < source.epoch_samples(); ++n)
    failed += !message_of(folder, [&] { sample_of(source, n, 5); }).empty();
  EXPECT_EQ(failed, 1);  // tokens 48, 49, 50 lie in the last of ten samples
}

TEST(TokenSource, IdentityChangesWithEachThingThatSamplesDependOn) {
  const ScratchDirectory folder;
  const auto file = counting_file(folder, 1, 51), longer = counting_file(folder, 1, 52, "b");
  const auto moved = counting_file(folder, 1, 51, "elsewhere");
  const TokenOptions five{.sequence_length = 5, .vocabulary = 100};
  const auto identity = [](const DataSource& source) { return source.identity(); };
  const auto all = identity(TokenSource(file, {0, 40}, five, "train"));
  EXPECT_EQ(all, identity(TokenSource(moved, {0, 40}, five, "train")));
  EXPECT_NE(all, identity(TokenSource(longer, {0, 40}, five, "train")));
  EXPECT_NE(all, identity(TokenSource(file, {0, 41}, five, "train")));
  EXPECT_NE(all, identity(TokenSource(file, {0, 40}, {.sequence_length = 6, .vocabulary = 100},
                                      "train")));
  const auto blend = [&](double weight) {
    std::vector<std::unique_ptr<DataSource>> sources;
    for (const char* name : {"train", "train/1"})
      sources.push_back(std::make_unique<TokenSource>(file, TokenRange{0, 40}, five, name));
    return identity(BlendedSource(std::move(sources), {1, weight}));
  };
  EXPECT_EQ(blend(3).size(), 1 + 2 * all.size());
  EXPECT_EQ(blend(3), blend(3));
  EXPECT_NE(blend(3), blend(4));
}

TEST(TokenSource, APartThatIsTooShortIsNamed) {
  const ScratchDirectory folder;
  const auto file = counting_file(folder, 1, 51);
  EXPECT_EQ(
      message_of(folder,
                 [&] {
                   TokenSource(file, {0, 5}, options, "valid");
                 }),
      "a: its part 'valid' has 5 tokens; a sample takes 6 (the sequence length and one more)");
  EXPECT_EQ(TokenSource(file, {0, 6}, options, "valid").epoch_samples(), 1);
}

TEST(Split, PartsAreDisjointAndCoverTheFile) {
  const ScratchDirectory folder;
  for (const auto& [documents, length] :
       {std::pair<Index, Index>{1, 1000}, {3, 333}, {500, 7}, {40, 25}}) {
    const auto file = counting_file(folder, documents, length);
    for (const char* text :
         {"969,30,1", "1,1,1", "0,1,1", "1,0,0", "80,20", "0.5,0,0.5", "0,0,1"}) {
      const Split split = parse_split(text);
      const auto parts = split_tokens(*file, split);
      EXPECT_EQ(parts[0].begin, 0);
      EXPECT_EQ(parts[0].end, parts[1].begin);
      EXPECT_EQ(parts[1].end, parts[2].begin);
      EXPECT_EQ(parts[2].end, file->tokens());
      const double sum = split.weights[0] + split.weights[1] + split.weights[2];
      for (std::size_t i = 0; i < 3; ++i) {
        const double share = split.weights[i] / sum * static_cast<double>(file->tokens());
        EXPECT_NEAR(static_cast<double>(parts[i].count()), share, 0.1 * share + 1) << text;
      }
    }
  }
}

TEST(Split, CutsAtDocumentsWhereThereAreEnough) {
  const ScratchDirectory folder;
  const auto many = split_tokens(*counting_file(folder, 500, 7), parse_split("8,1,1"));
  for (const TokenRange& part : many) EXPECT_EQ(part.begin % 7, 0);
  EXPECT_EQ(many[0].end, 2800);
  const auto few = split_tokens(*counting_file(folder, 2, 500), parse_split("8,1,1"));
  EXPECT_EQ(few[0].end, 800);
  EXPECT_EQ(few[1].end, 900);
}

TEST(Split, IsParsedAndMistakesShowAnExample) {
  const ScratchDirectory folder;
  EXPECT_EQ(parse_split("969,30,1").weights, (std::array<double, 3>{969, 30, 1}));
  EXPECT_EQ(parse_split("9,1").weights, (std::array<double, 3>{9, 1, 0}));
  EXPECT_EQ(parse_split("1").weights, (std::array<double, 3>{1, 0, 0}));
  for (const char* bad : {"", "a", "1,2,3,4", "1,,2", "1,2,", "0,0,0", "-1,2", "1;2", "nan",
                          "inf,1", "1e308,1e308,1e308", " 1"})
    EXPECT_EQ(message_of(folder, [&] { parse_split(bad); }),
              str("--split ", bad,
                  ": wanted are one to three numbers >= 0 whose sum is finite and not 0, as in "
                  "969,30,1"));
}

}  // namespace
}  // namespace trireme
