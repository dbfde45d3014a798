// `trireme data inspect` counts the tokens of a file.
#include "trireme/data/inspect.h"

#include <cmath>

#include <gtest/gtest.h>

#include "trireme/core/error.h"

#include "tests/support/scratch_directory.h"

namespace trireme {
namespace {

/// Writes token files of these documents, a byte a token.
void write_bytes(const std::string& prefix, const std::vector<std::string>& documents) {
  TokenFileWriter writer(prefix, TokenType::u8);
  for (const std::string& text : documents) {
    std::vector<std::int64_t> tokens;
    for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
    writer.add(tokens);
    writer.end_document();
  }
  writer.finish();
}

TEST(Inspect, CountsEveryToken) {
  const ScratchDirectory folder;
  write_bytes(folder / "out", {"abab", "cccc", "dd"});
  const Inspection quick = inspect(folder / "out", Scan::index);
  EXPECT_FALSE(quick.statistics);
  const Inspection full = inspect(folder / "out", Scan::every_token);
  EXPECT_EQ(full.documents, 3);
  EXPECT_EQ(full.sequences, 3);
  EXPECT_EQ(full.tokens, 10);
  EXPECT_EQ(full.shortest_document, 2);
  EXPECT_EQ(full.longest_document, 4);
  ASSERT_TRUE(full.statistics);
  const TokenStatistics& s = *full.statistics;
  EXPECT_EQ(s.smallest, 'a');
  EXPECT_EQ(s.largest, 'd');
  EXPECT_EQ(s.largest_position, 8);
  EXPECT_EQ(s.distinct, 4);
  EXPECT_NEAR(s.entropy_bits, 0.4 * std::log2(2.5) + 0.6 * std::log2(5), 1e-12);
  EXPECT_EQ(s.frequent.at(0).token, 'c');
  EXPECT_EQ(s.frequent.at(0).count, 4);
  EXPECT_EQ(s.frequent.at(1).token, 'a');
  std::string text = describe(full);
  text.erase(0, text.find(": "));
  EXPECT_EQ(text,
            ": 10 tokens of type u8 in 3 documents (3 sequences)\n"
            "shortest document 2 tokens, longest 4\n"
            "smallest token 97 (position 0), largest 100 (position 8), 4 different ones\n"
            "entropy of the frequencies 1.922 bits a token\n"
            "most frequent: 99 (40.00 %) 97 (20.00 %) 98 (20.00 %) 100 (20.00 %)\n");
}

TEST(Inspect, FindsTokensThatNoVocabularyHas) {
  const ScratchDirectory folder;
  TokenFileWriter writer(folder / "a", TokenType::i64);
  writer.add(std::vector<std::int64_t>{5, -3, INT64_MAX, -3});
  writer.end_document();
  writer.finish();
  const TokenStatistics s = inspect(folder / "a", Scan::every_token).statistics.value();
  EXPECT_EQ(s.smallest, -3);
  EXPECT_EQ(s.smallest_position, 1);
  EXPECT_EQ(s.largest, INT64_MAX);
  EXPECT_EQ(s.distinct, 3);
  EXPECT_EQ(s.frequent.front().token, -3);
  EXPECT_EQ(s.frequent.front().count, 2);
  EXPECT_EQ(s.entropy_bits, 1.5);
}

TEST(Inspect, NamesTheTokenThatIsInNoVocabulary) {
  const ScratchDirectory folder;
  const auto impossible = [&](const std::vector<std::int64_t>& tokens) {
    TokenFileWriter writer(folder / "a", TokenType::i64);
    writer.add(tokens);
    writer.end_document();
    writer.finish();
    std::string text = impossible_tokens(inspect(folder / "a", Scan::every_token));
    return text.erase(0, text.empty() ? 0 : (folder / "").size());
  };
  EXPECT_EQ(impossible({0, INT32_MAX}), "");
  EXPECT_EQ(impossible({5, -3, INT64_MAX}),
            "a.bin: token -3 at position 1 is in no vocabulary: tokens are whole numbers from 0 to "
            "2147483647");
  EXPECT_EQ(impossible({5, Index{INT32_MAX} + 1}),
            "a.bin: token 2147483648 at position 1 is in no vocabulary: tokens are whole numbers "
            "from 0 to 2147483647");
  EXPECT_EQ(impossible_tokens(inspect(folder / "a", Scan::index)), "");
}

}  // namespace
}  // namespace trireme
