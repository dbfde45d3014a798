// Text becomes the tokens that a tokenizer.json says.
#include "trireme/data/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/core/json/json.h"
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

TEST(Tokenizer, RefusesTextThatIsNotUtf8AndLeavesTokensAlone) {
  const ScratchDirectory folder;
  const Tokenizer tokenizer = SmallTokenizer().load(folder);
  Tokenizer::Scratch scratch;
  Tokens tokens = {5};
  const std::vector<std::string> wrong = {"abcdefghij\xFF",                 // no lead byte
                                          "abcdefghij\x80",                 // a tail
                                          "abcdefghij\xC0\x80",             // overlong
                                          "abcdefghij\xE0\x80\x80",         // overlong
                                          "abcdefghij\xED\xA0\x80",         // a surrogate
                                          "abcdefghij\xF4\x90\x80\x80",     // beyond U+10FFFF
                                          "abcdefghij\xF0\x9F\x98",         // cut off
                                          "abcdefghij\xE2\x82x and more"};  // cut off, inside
  for (const std::string& text : wrong) {
    const auto encode = [&] { tokenizer.encode(text, scratch, tokens); };
    EXPECT_EQ(message_of(folder, encode), "byte 10 of the text is not UTF-8");
    EXPECT_EQ(tokens, Tokens{5});
  }
}

TEST(Tokenizer, AddedTokensTakeSpaceBesideThemAndTheLongestIsFound) {
  const ScratchDirectory folder;
  SmallTokenizer small;
  small.add("<m>", ",\"lstrip\":true,\"rstrip\":true").add("<a>").add("<a><b>");
  const Tokenizer tokenizer = small.load(folder);
  EXPECT_EQ(encode(tokenizer, "x \n<m>\xC2\xA0 y"),
            (Tokens{small.token("x"), 256, small.token("y")}));
  EXPECT_EQ(encode(tokenizer, "<a><b> <a>"), (Tokens{258, small.token("\xC4\xA0"), 257}));
  EXPECT_EQ(encode(tokenizer, "<a"), (Tokens{small.token("<"), small.token("a")}));
}

TEST(Tokenizer, WholeWordsComeFirstWhereMergesAreIgnored) {
  const ScratchDirectory folder;
  SmallTokenizer small;
  small.merge("a", "b").merge("b", "c").merge("a", "bc");
  EXPECT_EQ(encode(small.load(folder), "abc"), (Tokens{small.token("ab"), small.token("c")}));
  small.set("model_members", ",\"ignore_merges\":true");
  EXPECT_EQ(encode(small.load(folder), "abc"), (Tokens{small.token("abc")}));
}

TEST(Tokenizer, AScratchServesSeveralTokenizersInTurn) {
  const ScratchDirectory folder;
  SmallTokenizer small;
  const Tokenizer plain = small.load(folder), merged = small.merge("a", "b").load(folder);
  Tokenizer::Scratch scratch;
  for (int i = 0; i < 2; ++i) {
    Tokens tokens;
    plain.encode("ab", scratch, tokens);
    merged.encode("ab", scratch, tokens);
    EXPECT_EQ(tokens, (Tokens{small.token("a"), small.token("b"), small.token("ab")}));
  }
}

TEST(Tokenizer, AScratchServesATokenizerThatIsLoadedAgain) {
  const ScratchDirectory folder;
  const SmallTokenizer small = SmallTokenizer().merge("a", "b");
  Tokenizer::Scratch scratch;
  for (int i = 0; i < 3; ++i) {
    Tokens tokens;
    const Tokenizer tokenizer = small.load(folder);
    tokenizer.encode("ab a", scratch, tokens);
    EXPECT_EQ(tokens.front(), small.token("ab"));
  }
}

TEST(Tokenizer, ALongTextMayBeStopped) {
  const ScratchDirectory folder;
  const Tokenizer tokenizer = SmallTokenizer().merge("a", "a").load(folder);
  std::string words;
  for (int i = 0; i < 400'000; ++i) words += "b ";
  for (const std::string& text : {std::string(600'000, 'a'), std::string(600'000, 'b'), words}) {
    Tokenizer::Scratch scratch;
    Tokens tokens = {1};
    int calls = 0;
    scratch.while_encoding([&] {
      ++calls;
      throw Error("stopped");
    });
    EXPECT_EQ(message_of([&] { tokenizer.encode(text, scratch, tokens); }), "stopped");
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(tokens, Tokens{1});
    scratch.while_encoding([&] { ++calls; });
    tokenizer.encode(text, scratch, tokens);
    EXPECT_GT(calls, 1);
    EXPECT_TRUE(Tokens(tokens.begin() + 1, tokens.end()) == encode(tokenizer, text));
  }
}

TEST(Tokenizer, ManyCombiningCharactersAreSortedByTheirClasses) {
  const ScratchDirectory folder;
  const Tokenizer tokenizer = SmallTokenizer().set("normalizer", R"({"type":"NFC"})").load(folder);
  constexpr int count = 500'000;  // takes hours where the time is quadratic
  std::string above, below;
  for (int i = 0; i < count; ++i) above += "\xCC\x81", below += "\xCC\x96";
  const std::string expected = "\xC3\xA9" + below + above.substr(2);
  EXPECT_TRUE(tokenizer.decode(encode(tokenizer, "e" + above + below)) == expected);
}

TEST(Tokenizer, FindsTheEndsOfDocumentsInFilesBesideItOrByTheirNames) {
  const ScratchDirectory folder;
  SmallTokenizer small;
  small.add("<s>").add("<|endoftext|>").add("<|stop|>");
  EXPECT_EQ(small.load(folder).bos(), 256);
  EXPECT_EQ(small.load(folder).eod(), 257);
  EXPECT_EQ(SmallTokenizer().load(folder).eod(), std::nullopt);
  folder.write("config.json", R"({"bos_token_id":65,"eos_token_id":[258,257]})");
  EXPECT_EQ(small.load(folder).bos(), 65);
  EXPECT_EQ(small.load(folder).eod(), 258);
  folder.write("tokenizer_config.json", R"({"bos_token":null,"eos_token":{"content":"<s>"}})");
  EXPECT_EQ(small.load(folder).bos(), std::nullopt);
  EXPECT_EQ(small.load(folder).eod(), 256);
}

/// What transformers 4.57.6 and 5.24 say of the same files.
TEST(Tokenizer, ReadsTheFilesBesideItInTheOrderOfTransformers) {
  const ScratchDirectory folder;
  const SmallTokenizer small = SmallTokenizer().add("<s>").add("</s>").add("<|end|>");
  const auto warning = [&](const Tokenizer& tokenizer) {
    const std::vector<std::string> all = tokenizer.warnings();
    EXPECT_EQ(all.size(), 1u);
    return all.empty() ? "" : all[0].substr((folder / "").size());
  };
  folder.write("special_tokens_map.json", R"({"eos_token":"<|end|>"})");
  EXPECT_EQ(small.load(folder).eod(), 258);
  EXPECT_THAT(small.load(folder).warnings(), testing::IsEmpty());
  folder.write("tokenizer_config.json", R"({"bos_token":"<s>","eos_token":"</s>"})");
  EXPECT_EQ(small.load(folder).eod(), 258);
  EXPECT_EQ(small.load(folder).bos(), 256);
  EXPECT_EQ(warning(small.load(folder)),
            "special_tokens_map.json has <|end|> as eos_token, and tokenizer_config.json </s>; "
            "the first counts, as in transformers");
  const std::string decoder = R"("added_tokens_decoder":{"256":{"content":"<s>"}})";
  folder.write("tokenizer_config.json", "{" + decoder + R"(,"eos_token":"</s>"})");
  EXPECT_EQ(small.load(folder).eod(), 257);
  EXPECT_EQ(warning(small.load(folder)),
            "special_tokens_map.json has <|end|> as eos_token, and tokenizer_config.json </s>; "
            "that counts, as in transformers");
  folder.write("special_tokens_map.json", "{}");
  folder.write("config.json", R"({"eos_token_id":257})");
  EXPECT_EQ(small.load(folder).stops(), Tokens{257});
  EXPECT_THAT(small.load(folder).warnings(), testing::IsEmpty());
  folder.write("generation_config.json", R"({"eos_token_id":[258,300]})");
  EXPECT_EQ(small.load(folder).eod(), 257);
  EXPECT_EQ(small.load(folder).stops(), (Tokens{258, 300}));
  EXPECT_EQ(warning(small.load(folder)),
            "generation_config.json: eos_token_id is [258,300], where generated text ends, as in "
            "transformers; documents end with token 257, eos_token of the tokenizer");
  folder.write("generation_config.json", R"({"eos_token_id":"</s>"})");
  EXPECT_THAT(message_of([&] { small.load(folder); }),
              testing::HasSubstr("generation_config.json: eos_token_id is \"</s>\"; expected a "
                                 "token's number, a list of them, or null"));
}

TEST(Tokenizer, HasTokensThatOnlyTokenizerConfigAdds) {
  const ScratchDirectory folder;
  const SmallTokenizer small = SmallTokenizer().add("<s>");
  const std::string before = small.load(folder).hash();
  folder.write("tokenizer_config.json",
               R"({"eos_token":"<|im_end|>","added_tokens_decoder":{"258":{"content":"<|im_end|>",
                  "special":true},"257":{"content":"<x>","special":false},
                  "256":{"content":"<s>"}}})");
  const Tokenizer tokenizer = small.load(folder);
  EXPECT_EQ(tokenizer.eod(), 258);
  EXPECT_EQ(tokenizer.vocabulary(), 259);
  EXPECT_EQ(encode(tokenizer, "a<|im_end|><x>"), (Tokens{small.token("a"), 258, 257}));
  EXPECT_NE(tokenizer.hash(), before);
  const std::vector<std::string> warnings = tokenizer.warnings();
  ASSERT_EQ(warnings.size(), 2u);
  EXPECT_THAT(warnings[1], testing::HasSubstr("tokenizer_config.json: has the token "
                                              "\"<|im_end|>\", which tokenizer.json lacks; it is "
                                              "added as token 258, as transformers does"));
  folder.write("tokenizer_config.json", R"({"eos_token":"<none>"})");
  EXPECT_EQ(small.load(folder).eod(), 257);
  EXPECT_THAT(small.load(folder).warnings(), testing::ElementsAre(testing::HasSubstr(
                                                 "eos_token is \"<none>\", which tokenizer.json "
                                                 "lacks; it is added as token 257")));
}

TEST(Tokenizer, TheHashIsOfWhatDecidesTokens) {
  const ScratchDirectory folder;
  const auto hash = [&](const SmallTokenizer& small) { return small.load(folder).hash(); };
  const SmallTokenizer small = SmallTokenizer().merge("a", "b").merge("c", "d");
  EXPECT_EQ(hash(small).size(), 16u);
  EXPECT_EQ(hash(small), hash(small));
  std::set<std::string> others = {hash(small)};
  others.insert(hash(SmallTokenizer().merge("c", "d").merge("a", "b")));
  others.insert(hash(SmallTokenizer(small).add("<x>")));
  others.insert(hash(SmallTokenizer(small).add("<x>", ",\"lstrip\":true")));
  others.insert(hash(SmallTokenizer(small).set("normalizer", R"({"type":"NFC"})")));
  others.insert(hash(SmallTokenizer(small).set("pre_tokenizer", R"({"type":"ByteLevel"})")));
  others.insert(hash(SmallTokenizer(small).set("model_members", ",\"ignore_merges\":true")));
  EXPECT_EQ(others.size(), 7u);
}

TEST(Tokenizer, TheHashDoesNotDependOnTheOrderOfAddedTokens) {
  const ScratchDirectory folder;
  const std::string json = SmallTokenizer().json(), none = "\"added_tokens\":[]";
  const std::size_t at = json.find(none);
  ASSERT_NE(at, std::string::npos);
  std::set<std::string> hashes;
  for (const char* list : {R"({"id":0,"content":"!"},{"id":1,"content":"\""})",
                           R"({"id":1,"content":"\""},{"id":0,"content":"!"})"}) {
    std::string text = json;
    text.replace(at, none.size(), str("\"added_tokens\":[", list, "]"));
    hashes.insert(Tokenizer::load(folder.write("tokenizer.json", text)).hash());
  }
  EXPECT_EQ(hashes.size(), 1u);
}

}  // namespace
}  // namespace trireme::data
