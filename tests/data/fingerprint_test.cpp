// Corpora of the same size are distinguished by a hash of some of their tokens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/data/token_source.h"

#include "runtime/data/part_content.h"
#include "tests/support/scratch_directory.h"

namespace trireme::data {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;

std::vector<std::int64_t> counting(Index tokens) {
  std::vector<std::int64_t> all;
  for (Index i = 0; i < tokens; ++i) all.push_back(i % 200);
  return all;
}

TokenFile written(const std::string& prefix, const std::vector<std::int64_t>& tokens,
                  TokenType type = TokenType::u8) {
  TokenFileWriter writer(prefix, type);
  writer.add(tokens);
  writer.end_document();
  writer.finish();
  return TokenFile(prefix);
}

TEST(Fingerprint, IsOfTheTokensAndNotOfHowOrWhereTheyAreStored) {
  const ScratchDirectory folder;
  const auto tokens = counting(100'000);
  const std::uint64_t one = fingerprint(written(folder / "a", tokens));
  EXPECT_EQ(fingerprint(written(folder / "b", tokens, TokenType::i32)), one);
  EXPECT_NE(fingerprint(written(folder / "c", counting(100'001))), one);
}

TEST(Fingerprint, SeesEveryTokenOfASmallFile) {
  const ScratchDirectory folder;
  for (const Index count : {1, 2, 63, 64, 65, 1000, 65'000}) {
    const auto tokens = counting(count);
    const std::uint64_t one = fingerprint(written(folder / "a", tokens));
    for (const Index at : {Index{0}, count / 3, count / 2, count - 1}) {
      auto other = tokens;
      other[static_cast<std::size_t>(at)] += 1;
      EXPECT_NE(fingerprint(written(folder / "b", other)), one) << at << " of " << count;
    }
  }
}

TEST(Fingerprint, SeesBothEndsOfALargeFileAndAChangeOfAllOfIt) {
  const ScratchDirectory folder;
  const auto tokens = counting(1'000'000);
  const std::uint64_t one = fingerprint(written(folder / "a", tokens));
  for (const std::size_t at : {std::size_t{0}, std::size_t{999'999}}) {
    auto other = tokens;
    other[at] += 1;
    EXPECT_NE(fingerprint(written(folder / "b", other)), one) << at;
  }
  auto shifted = tokens;
  for (std::int64_t& token : shifted) token += 1;
  EXPECT_NE(fingerprint(written(folder / "b", shifted)), one);
}

TEST(Fingerprint, AnEmptyFileHasOne) {
  const ScratchDirectory folder;
  EXPECT_EQ(fingerprint(written(folder / "a", {})), fingerprint(written(folder / "b", {})));
}

TEST(TokenSource, SaysWhichContentItHasAndInWhichFile) {
  const ScratchDirectory folder;
  written(folder / "a", counting(1000));
  written(folder / "b", std::vector<std::int64_t>(1000, 7));
  const auto train = [&](const std::string& first, const std::string& second) {
    return open_token_parts({{1, folder / first}, {1, folder / second}}, parse_split("1"),
                            {.sequence_length = 8, .vocabulary = 256, .seed = 1})
        .front()
        .source->identity();
  };
  EXPECT_EQ(train("a", "b"), train("a", "b"));
  EXPECT_NE(train("a", "b"), train("b", "a"));
  EXPECT_NE(train("a", "b"), train("a", "a"));

  const auto source = std::move(
      open_token_parts({{1, folder / "a"}, {1, folder / "b"}}, parse_split("1"), {8, 256, 1})
          .front()
          .source);
  EXPECT_THAT(source->identity(), Contains(Pair("train content", testing::_)));
  EXPECT_EQ(source->file_of("train content"), folder / "a.bin");
  EXPECT_EQ(source->file_of("train/1 tokens"), folder / "b.bin");
  EXPECT_EQ(source->file_of("train sequence length"), "");
}

TEST(TokenFile, ANameWithItsExtensionIsAnsweredWithThePrefix) {
  const ScratchDirectory folder;
  written(folder / "a", counting(10));
  for (const std::string extension : {".bin", ".idx"})
    EXPECT_EQ(message_of(folder, [&] { TokenFile(folder / "a" + extension); }),
              "a" + extension + ": give the prefix, without " + extension + ": a");
  written(folder / "b.bin", counting(10));  // a prefix may end like that
  EXPECT_EQ(TokenFile(folder / "b.bin").tokens(), 10);
}

}  // namespace
}  // namespace trireme::data
