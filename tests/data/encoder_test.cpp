// Tokens of a model as text: no character in halves, no space lost.
#include "runtime/data/prepare/encoder.h"

#include <gtest/gtest.h>

#include "runtime/data/unicode/utf8.h"
#include "tests/data/tokenizer/small_tokenizer.h"

namespace trireme::data {
namespace {

using TokenList = std::vector<std::int32_t>;

TokenList tokens_by(const TextEncoder& encoder, const std::string& text) {
  TokenList tokens;
  encoder.worker()->encode(text, tokens);
  return tokens;
}

/// Llama 2's decoder leaves out the first space of a text.
TEST(DecodeFrom, AddsToATextWhatFollowsItWithItsSpaces) {
  for (const char* kind : {"gpt2", "llama2"}) {
    const auto encoder =
        tokenizer_encoder(TRIREME_SOURCE_DIR "/tests/data/tokenizer/fixture/" + std::string(kind));
    const std::string text = "The file is \xE4\xBD\xA0 here";
    const TokenList all = tokens_by(*encoder, text);
    ASSERT_GT(all.size(), 4u);
    EXPECT_EQ(encoder->decode(all), text);
    for (std::size_t first = 1; first < all.size(); ++first)
      EXPECT_EQ(encoder->decode(std::span(all).first(first)) + decode_from(first, all, *encoder),
                text)
          << kind << ' ' << first;
  }
}

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
