// Tokens of a model as text: no character in halves, no space lost.
#include "runtime/data/prepare/encoder.h"

#include <gtest/gtest.h>

#include "runtime/data/unicode/utf8.h"
#include "tests/data/tokenizer/small_tokenizer.h"

namespace trireme::data {
namespace {

using TokenList = std::vector<std::int32_t>;

TEST(DecodeFrom, ReplacesTokensThatTheVocabularyLacks) {
  const ScratchDirectory folder;
  const SmallTokenizer small;
  folder.write("tokenizer.json", small.json());
  const auto encoder = tokenizer_encoder(folder.path());
  const TokenList tokens = {small.token("a"), 256, small.token("b"), -1};
  EXPECT_EQ(decode_from(1, tokens, *encoder),
            "\xEF\xBF\xBD"
            "b\xEF\xBF\xBD");
  EXPECT_EQ(decode_from(1, TokenList{'a', 256, 'b'}, *byte_encoder()),
            "\xEF\xBF\xBD"
            "b");
}

TEST(WithReplacements, LeavesNoPartOfACharacter) {
  const std::string r = "\xEF\xBF\xBD", you = "\xE4\xBD\xA0";
  EXPECT_EQ(with_replacements("all " + you), "all " + you);
  EXPECT_EQ(with_replacements("a" + you.substr(0, 2)), "a" + r);
  EXPECT_EQ(with_replacements(you.substr(0, 2) + you), r + you);
  EXPECT_EQ(with_replacements(you.substr(1) + "b"), r + r + "b");
  EXPECT_EQ(with_replacements("\xff\xfe"), r + r);
  EXPECT_EQ(with_replacements(""), "");
}

}  // namespace
}  // namespace trireme::data
