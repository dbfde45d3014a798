// A sweep reads each token of a part once.
#include "trireme/data/token_sweep.h"

#include <map>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"

#include "tests/support/message_of.h"
#include "tests/support/scratch_directory.h"

namespace trireme {
namespace {

using testing::HasSubstr;

/// Documents of `count` tokens; a token is its own position. Returns the prefix.
std::string swept_file(const ScratchDirectory& folder, Index documents, Index count) {
  TokenFileWriter writer(folder / "counts", TokenType::i32);
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(count));
  for (Index d = 0; d < documents; ++d) {
    std::iota(tokens.begin(), tokens.end(), d * count);
    writer.add(tokens);
    writer.end_document();
  }
  writer.finish();
  return folder / "counts";
}

constexpr Index row_length = 5;
const TokenOptions sweep_options{.sequence_length = row_length, .vocabulary = 1 << 20, .seed = 3};

struct SweptRows {
  std::vector<std::int32_t> tokens = std::vector<std::int32_t>(row_length, 99),
                            targets = std::vector<std::int32_t>(row_length, 99);
  Index count = 0;
};

SweptRows swept_rows(DataSource& source, Index sample) {
  SweptRows rows;
  const Tensor out[] = {Tensor(rows.tokens.data(), {row_length}, DType::i32),
                        Tensor(rows.targets.data(), {row_length}, DType::i32)};
  rows.count = source.fill(sample, out);
  return rows;
}

/// How often each target comes, each behind the token before it.
std::map<std::int32_t, int> swept_targets(TokenSweep& source, Index samples) {
  std::map<std::int32_t, int> found;
  Index count = 0;
  for (Index sample = 0; sample < samples; ++sample) {
    const SweptRows rows = swept_rows(source, sample);
    for (std::size_t i = 0; i < rows.targets.size(); ++i) {
      EXPECT_EQ(rows.targets[i] >= 0, static_cast<Index>(i) < rows.count);
      if (rows.targets[i] < 0) {
        EXPECT_EQ(rows.tokens[i], 0);
        continue;
      }
      EXPECT_EQ(rows.tokens[i] + 1, rows.targets[i]);
      ++found[rows.targets[i]];
    }
    count += rows.count;
  }
  EXPECT_EQ(count, source.targets());
  return found;
}

TEST(TokenSweep, EveryTokenButTheFirstIsATargetOnce) {
  const ScratchDirectory folder;
  const auto file = std::make_shared<const TokenFile>(swept_file(folder, 4, 11));
  for (const Index end : {Index{9}, Index{10}, Index{29}, Index{33}, Index{34}, Index{44}}) {
    TokenSweep source(file, {8, end < 10 ? 10 : end}, sweep_options);
    const Index tokens = (end < 10 ? 10 : end) - 8;
    EXPECT_EQ(source.targets(), tokens - 1);
    EXPECT_EQ(source.samples(), (tokens - 1 + row_length - 1) / row_length);
    const auto found = swept_targets(source, source.samples() + 7);  // those behind have none
    EXPECT_EQ(static_cast<Index>(found.size()), tokens - 1);
    for (const auto& [target, times] : found) EXPECT_EQ(times, 1) << target;
    EXPECT_EQ(found.begin()->first, 9);
  }
}

TEST(TokenSweep, FillsOnlyTheRowsThatAreAskedFor) {
  const ScratchDirectory folder;
  TokenSweep source(std::make_shared<const TokenFile>(swept_file(folder, 1, 7)), {0, 7},
                    sweep_options);
  std::vector<std::int32_t> row(row_length, 99);
  const Tensor targets[] = {Tensor(nullptr, {row_length}, DType::i32),
                            Tensor(row.data(), {row_length}, DType::i32)};
  EXPECT_EQ(source.fill(1, targets), 1);
  EXPECT_EQ(row, (std::vector<std::int32_t>{6, -1, -1, -1, -1}));
}

TEST(TokenSweep, RefusesPartsWithoutAPrediction) {
  const ScratchDirectory folder;
  const std::vector<WeightedPath> paths{{1, swept_file(folder, 1, 20)}};
  EXPECT_THAT(
      message_of([&] { open_swept_parts(paths, parse_split("1"), Part::valid, sweep_options); }),
      HasSubstr("0 for 'valid'"));
  EXPECT_THAT(message_of([&] {
                open_swept_parts(paths, parse_split("95,5,0"), Part::valid, sweep_options);
              }),
              HasSubstr("counts: its part 'valid' has 1 token; a prediction takes 2"));
}

TEST(TokenSweep, OpensThePartOfEachFileOfABlend) {
  const ScratchDirectory folder, other;
  const std::vector<WeightedPath> paths{{0.25, swept_file(folder, 4, 25)},
                                        {0.75, swept_file(other, 2, 25)}};
  const auto parts = open_swept_parts(paths, parse_split("0,1"), Part::valid, sweep_options);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].source->targets(), 99);
  EXPECT_EQ(parts[1].source->targets(), 49);
  EXPECT_EQ(parts[1].path.weight, 0.75);
  EXPECT_EQ(parts[0].content.last_document, 4);
}

}  // namespace
}  // namespace trireme
