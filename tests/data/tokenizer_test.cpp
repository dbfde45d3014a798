// Text becomes the tokens that a tokenizer.json says.
#include "trireme/data/tokenizer.h"

#include <gtest/gtest.h>

#include "runtime/core/json.h"
#include "tests/data/tokenizer/small_tokenizer.h"
#include "tests/support/scratch_directory.h"

namespace trireme::data {
namespace {

using Tokens = std::vector<std::int32_t>;

Tokens encode(const Tokenizer& tokenizer, std::string_view text) {
  Tokenizer::Scratch scratch;
  Tokens tokens;
  tokenizer.encode(text, scratch, tokens);
  return tokens;
}

TEST(Tokenizer, MergesTheFirstMergeFirstAndLeftmostFirst) {
  const ScratchDirectory folder;
  SmallTokenizer small;
  small.merge("a", "b").merge("b", "c").merge("ab", "c").merge("a", "a");
  const Tokenizer tokenizer = small.load(folder);
  EXPECT_EQ(encode(tokenizer, "abc"), (Tokens{small.token("abc")}));
  EXPECT_EQ(encode(tokenizer, "bc"), (Tokens{small.token("bc")}));
  EXPECT_EQ(encode(tokenizer, "aaa"), (Tokens{small.token("aa"), small.token("a")}));
  EXPECT_EQ(encode(tokenizer, "aab"), (Tokens{small.token("a"), small.token("ab")}));
}

TEST(Tokenizer, LongPiecesHaveTheTokensOfShortOnes) {
  const ScratchDirectory folder;
  SmallTokenizer small;
  small.merge("a", "b").merge("ab", "ab").merge("abab", "abab").merge("b", "a").merge("abab", "a");
  const Tokenizer tokenizer = small.load(folder);
  std::string text = "aab";  // 3 + 8 n letters are one piece
  Tokens expected = {small.token("a")};
  for (int i = 0; i < 20; ++i) text += "abababab";
  for (int i = 0; i < 20; ++i) expected.push_back(small.token("abababab"));
  expected.push_back(small.token("ab"));
  EXPECT_EQ(encode(tokenizer, text), expected);
  EXPECT_EQ(encode(tokenizer, "aabababababab"),
            (Tokens{small.token("a"), small.token("abababab"), small.token("abab")}));
}

TEST(Tokenizer, DecodesToTheBytesOfTheText) {
  const ScratchDirectory folder;
  SmallTokenizer small;
  const Tokenizer tokenizer = small.merge("a", "b").add("<|endoftext|>").load(folder);
  const std::string text = "ab \xE2\x82\xAC\n\x01<|endoftext|>caf\xC3\xA9 \xF0\x9F\x98\x80";
  const Tokens tokens = encode(tokenizer, text);
  EXPECT_EQ(tokenizer.decode(tokens), text);
  EXPECT_EQ(tokenizer.vocabulary(), 258);
  EXPECT_EQ(tokens[7], 257);  // after ab, space, three bytes, newline and U+0001
}

}  // namespace
}  // namespace trireme::data
