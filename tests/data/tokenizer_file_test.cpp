// A tokenizer.json that is not understood, or broken, is refused with all reasons.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/data/tokenizer.h"

#include "runtime/data/tokenizer/tokenizer_definition.h"
#include "tests/data/tokenizer/small_tokenizer.h"
#include "tests/support/scratch_directory.h"

namespace trireme::data {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string refusal(const std::string& json) {
  const ScratchDirectory folder;
  const std::string path = folder.write("tokenizer.json", json);
  return message_of(folder, [&] { Tokenizer::load(path); });
}
std::string refusal_of(const std::string& part, const std::string& json) {
  return refusal(SmallTokenizer().merge("a", "b").set(part, json).json());
}
std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  return text.replace(at, from.size(), to);
}

/// What is said of a Split by `pattern`, which is written as in JSON.
std::string refused_pattern(const std::string& pattern) {
  return refusal_of("pre_tokenizer",
                    R"({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":")" +
                        pattern + R"("},"behavior":"Isolated","invert":false},)" +
                        R"({"type":"ByteLevel","use_regex":false,"add_prefix_space":false}]})");
}

TEST(TokenizerFile, NamesEverythingThatIsNotUnderstoodAtOnce) {
  SmallTokenizer small;
  small.merge("a", "b").set("normalizer", R"({"type":"Nmt"})");
  small.set("pre_tokenizer", R"({"type":"Sequence","pretokenizers":[{"type":"UnicodeScripts"},
    {"type":"ByteLevel","add_prefix_space":false,"surprise":1}]})");
  small.set("model_members", R"(,"dropout":0.1,"new_option":true)");
  const std::string all = refusal(small.json());
  EXPECT_THAT(all, HasSubstr("tokenizer.json: cannot be used:\n"));
  EXPECT_THAT(all,
              HasSubstr("normalizer.type is \"Nmt\"; understood are NFC, NFD, NFKC, NFKD, "
                        "Prepend, Replace, Strip, StripAccents, Lowercase, ByteLevel, Sequence"));
  EXPECT_THAT(all, HasSubstr("pre_tokenizer.pretokenizers[0].type is \"UnicodeScripts\"; "
                             "understood are ByteLevel, Split, "));
  EXPECT_THAT(all, HasSubstr("pre_tokenizer.pretokenizers[1].surprise is not understood"));
  EXPECT_THAT(all, HasSubstr("model.dropout is not 0"));
  EXPECT_THAT(all, HasSubstr("model.new_option is not understood"));
}

TEST(TokenizerFile, RefusesBrokenVocabulariesAndMerges) {
  const std::string good = SmallTokenizer().merge("a", "b").json();
  EXPECT_EQ(refusal(good), "");
  EXPECT_THAT(refusal(replaced(good, "\"a\":64", "\"a\":65")), HasSubstr("which another one is"));
  EXPECT_THAT(refusal(replaced(good, "\"a\":64", "\"a\":-1")),
              HasSubstr("a number below 16777216"));
  EXPECT_THAT(refusal(replaced(good, "\"a\":64", "\"a\":16777216")), HasSubstr("a number below"));
  EXPECT_THAT(refusal(replaced(good, "\"a\":64", "\"a\":\"x\"")), HasSubstr("a number below"));
  EXPECT_THAT(refusal(replaced(good, "\"a\":64", "\"b\":64")),
              HasSubstr("two members are called b"));
  EXPECT_THAT(refusal(replaced(good, "\"!\":0,", "")),
              HasSubstr("lacks 1 of the 243 bytes of UTF-8; the first is <0x21>, and "
                        "model.unk_token is none: some characters would have no token"));
  // Of the byte 0xC0, which no text has.
  EXPECT_EQ(refusal(replaced(good, "\"\xC3\x80\":124,", "")), "");
  const std::string merge = R"(["a","b"])";
  EXPECT_THAT(refusal(replaced(good, merge, R"(["a","z"])")),
              HasSubstr("lacks a part or the whole"));
  EXPECT_THAT(refusal(replaced(good, merge, R"(["a"])")), HasSubstr("is not two texts"));
  EXPECT_THAT(refusal(replaced(good, merge, "\"a b c\"")), HasSubstr("is not two texts"));
  EXPECT_EQ(refusal(replaced(good, merge, "\"a b\"")), "");
}

TEST(TokenizerFile, NamesAFileThatCannotBeOpened) {
  EXPECT_THAT(message_of([] { Tokenizer::load("none"); }),
              HasSubstr("none: there is no such file"));
  EXPECT_THAT(message_of([] { Tokenizer::load(std::string(300, 'x')); }),
              HasSubstr("x: cannot be opened: File name too long"));
}

TEST(TokenizerFile, NamesWhatAFileOfAnotherTokenizerIs) {
  const ScratchDirectory folder;
  const auto refused = [&](const std::string& name, const std::string& text) {
    const std::string file = folder.write(name, text);
    return message_of(folder, [&] { Tokenizer::load(file); });
  };
  EXPECT_THAT(refused("tekken.json", "{}"),
              StartsWith("tekken.json: this is tekken.json, a tokenizer of Mistral, which is not "
                         "read; make tokenizer.json with "));
  EXPECT_THAT(refused("tokenizer.model", "\n\x0e"),
              StartsWith("tokenizer.model: this is tokenizer.model, a model of SentencePiece"));
  EXPECT_THAT(refused("mine.json", "{}"), StartsWith("mine.json: cannot be used:"));
  EXPECT_THAT(refused("a.tiktoken", "aGk= 0\n"), HasSubstr("a vocabulary of tiktoken"));
  const std::string sound = folder.write("vocab.json", SmallTokenizer().json());
  EXPECT_EQ(Tokenizer::load(sound).vocabulary(), 256);
}

TEST(TokenizerFile, NamesWhatADownloadGaveInItsPlace) {
  const ScratchDirectory folder;
  const auto refused = [&](const std::string& text) {
    const std::string file = folder.write("tokenizer.json", text);
    return message_of(folder, [&] { Tokenizer::load(file); });
  };
  EXPECT_THAT(refused("<!DOCTYPE html>"), HasSubstr("is a page of HTML"));
  EXPECT_THAT(refused("version https://git-lfs.github.com/spec/v1\n"),
              HasSubstr("is a pointer of Git LFS"));
  EXPECT_THAT(refused("{"), HasSubstr("this is not JSON at byte"));
  EXPECT_THAT(message_of([] { Tokenizer::load("meta-llama/Llama-3.2-1B"); }),
              HasSubstr("hf download meta-llama/Llama-3.2-1B"));
}

TEST(TokenizerFile, RefusesHostileText) {
  EXPECT_THAT(refusal(""), HasSubstr("this is not JSON at byte"));
  EXPECT_THAT(refusal("[]"), HasSubstr("model is missing"));
  EXPECT_THAT(refusal("{\"model\":3}"), HasSubstr("model is 3; expected an object"));
  EXPECT_THAT(refusal(std::string(100'000, '[')), HasSubstr("more than 16 deep"));
  EXPECT_THAT(refusal("{\"model\":{\"vocab\":{\"\xFF\":1}}}"), HasSubstr("not JSON at byte"));
  const std::string step = R"({"type":"Digits"},)";
  std::string steps;
  for (int i = 0; i < 40; ++i) steps += step;
  steps.pop_back();
  EXPECT_THAT(refusal_of("pre_tokenizer", R"({"type":"Sequence","pretokenizers":[)" + steps + "]}"),
              HasSubstr("40 steps; understood are 32"));
  // Of sequences in sequences too; the patterns behind the 33rd are not compiled.
  std::string few, nested;
  for (int i = 0; i < 20; ++i) few += step;
  few.pop_back();
  for (int i = 0; i < 3; ++i)
    nested += (i ? "," : "") + (R"({"type":"Sequence","pretokenizers":[)" + few + "]}");
  EXPECT_THAT(
      refusal_of("pre_tokenizer", R"({"type":"Sequence","pretokenizers":[)" + nested + "]}"),
      HasSubstr("pre_tokenizer has 60 steps; understood are 32"));
}

TEST(TokenizerFile, RefusesADecoderThatDoublesATokenAgainAndAgain) {
  std::string vocabulary = "\"a\":256", steps;
  for (int i = 0; i < 256; ++i)
    vocabulary += str(",\"", name_of_byte(static_cast<unsigned char>(i)), "\":", i);
  for (int i = 0; i < 24; ++i)
    steps += R"({"type":"Replace","pattern":{"String":"a"},"content":"aa"},)";
  const auto with = [&](const std::string& decoders) {
    return refusal(str(R"({"decoder":{"type":"Sequence","decoders":[)", decoders,
                       R"({"type":"Fuse"}]},"model":{"byte_fallback":true,"merges":[],"vocab":{)",
                       vocabulary, "}}}"));
  };
  EXPECT_EQ(with(""), "");
  EXPECT_THAT(with(steps + steps), HasSubstr("decoder has 49 steps; understood are 32"));
  EXPECT_THAT(with(steps),
              HasSubstr("replacing \"a\" by \"aa\" makes a text longer than 1048576 bytes"));
}

TEST(TokenizerFile, RefusesPatternsThatAreReadOtherwiseElsewhere) {
  EXPECT_EQ(refused_pattern(R"(\\p{L}+|\\p{N}{1,3}|[^\\s\\p{L}]?+x|(?i:'s)|\\s+(?!\\S))"), "");
  for (const char* wrong :
       {R"(\\p{Greek})", R"(\\p{L)", R"(\\R)", R"(\\G)", R"(\\xE9)", R"(\\u12)", "[[:alpha:]]",
        "[a&&]", R"([\\b])", "[]a]", "(?s:x)", "(?x)", R"((a)\\1)", "a{2}+", "a{2}?", "(a{12}?)",
        R"((?i:\\w))", R"((?i:[\\p{L}]))", R"((?i:\\u0041))"})
    EXPECT_THAT(refused_pattern(wrong), HasSubstr("is not understood")) << wrong;
  EXPECT_THAT(refused_pattern("(a"), HasSubstr("missing closing parenthesis"));
  EXPECT_THAT(refused_pattern("[a[b]"), HasSubstr("[ has no ] that ends it"));
  EXPECT_THAT(refused_pattern(R"(\\p{Greek})"), HasSubstr(R"(\p{Greek} is not understood)"));
  EXPECT_THAT(refused_pattern("a{2}?"), HasSubstr("\"a{2}?\": {2}? is not understood, since to"));
  for (const char* right : {"a{2,3}?", "a{2,}?", "a{2}", "(?:a{2})?", R"(\\{2\\}?)"})
    EXPECT_EQ(refused_pattern(right), "") << right;
}

/// Of Oniguruma's other cases some are several characters long.
TEST(TokenizerFile, RefusesPatternsWhoseOtherCasesAreOthersElsewhere) {
  for (const char* wrong :
       {"(?i:ss)", "(?i:xSsy)", "(?i:ffi)", "(?i:fi)", "(?i:FL)", "(?i:st)", "(?i:s(?:s))",
        "(?i:(?:s)s)", "(?i:s{1}s)", "(?i:s)(?i:s)", "(?i:(?:a(?=b))s(s))", "(?i:\xC3\x9F)",
        "(?i:[\xC3\x9F])", "(?i:\xEF\xAC\x86)", R"(\\s(?i:\\x{DF}))", R"((?i:\\p{Lu}))"})
    EXPECT_THAT(refused_pattern(wrong), HasSubstr(" in (?i: is not understood, since")) << wrong;
  EXPECT_THAT(refused_pattern("a(?i:'sS)"),
              HasSubstr("ss in (?i: is not understood, since to Oniguruma it is U+00DF as well"));
  EXPECT_THAT(refused_pattern("(?i:\xC3\x9F)"), HasSubstr("\xC3\x9F in (?i: is not"));
  for (const char* right :
       {"ss|st|fi", "(?i:s)s", "s(?i:s)", "(?i:s|s)", "(?i:[s]s)", R"((?i:\\s\\s)s)", "\xC3\x9F",
        "(?i:a)\xC3\x9F", "'(?i:[sdmt]|ll|ve|re)|x", R"((?i:\\st))"})
    EXPECT_EQ(refused_pattern(right), "") << right;
}

/// GPT-2's is that of ByteLevel; then Llama 3, Qwen, Mistral's Tekken, GPT-4o.
TEST(TokenizerFile, UnderstandsThePatternsOfModels) {
  const std::string ends = R"(| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+)";
  const std::string short_forms = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
  const std::string words = R"([^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*)"
                            R"([\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+)";
  EXPECT_EQ(refusal_of("pre_tokenizer", R"({"type":"ByteLevel","use_regex":true})"), "");
  for (const char* numbers : {R"(|\\p{N}{1,3})", R"(|\\p{N})"}) {
    EXPECT_EQ(refused_pattern(short_forms + R"(|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+)" + numbers + ends),
              "");
    EXPECT_EQ(refused_pattern(words + numbers + ends), "");
    EXPECT_EQ(refused_pattern(words + short_forms + "?" + numbers + ends), "");
  }
}

TEST(TokenizerFile, RefusesAddedTokensThatTheyWouldNumberOtherwise) {
  const std::string good = SmallTokenizer().add("<x>").add("<y>").json();
  EXPECT_EQ(refusal(good), "");
  EXPECT_THAT(refusal(replaced(good, "\"id\":257", "\"id\":300")),
              HasSubstr("the id of \"<y>\" is 300; right is 257"));
  EXPECT_THAT(refusal(replaced(good, "<y>", "<x>")), HasSubstr("\"<x>\" is there twice"));
  EXPECT_THAT(refusal(replaced(good, "<y>", "")), HasSubstr("lacks a content"));
}

}  // namespace
}  // namespace trireme::data
