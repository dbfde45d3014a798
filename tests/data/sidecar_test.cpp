// PREFIX.json: written and read, and what is wrong with one.
#include "runtime/data/prepare/sidecar.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/data/token_source.h"
#include "trireme/data/token_sweep.h"

#include "tests/support/scratch_directory.h"

namespace trireme::data {
namespace {

using testing::HasSubstr;

/// Tokens 0 to 99 with a sidecar of this tokenizer. Returns its prefix.
std::string corpus(const ScratchDirectory& folder, const std::string& name,
                   const std::string& tokenizer, Index text_bytes = 250,
                   std::optional<Index> appended = 256) {
  Sidecar sidecar;
  sidecar.tokenizer = tokenizer;
  sidecar.vocabulary = 300;
  sidecar.eod = appended.value_or(256);
  sidecar.documents = 1;
  sidecar.tokens = 100;
  sidecar.text_bytes = text_bytes;
  sidecar.append_eod = appended.has_value();
  sidecar.json_keys = {"text", "ti\"tle"};
  TokenFileWriter writer(folder / name, TokenType::u16);
  for (std::int32_t token = 0; token < 100; ++token)
    writer.add(std::span<const std::int32_t>(&token, 1));
  writer.end_document();
  writer.finish(tokenizer.empty() ? "" : text_of(sidecar));
  return folder / name;
}

TEST(SidecarFile, SaysWhatWasWritten) {
  const ScratchDirectory folder;
  const Sidecar read = read_sidecar(TokenFile(corpus(folder, "a", "0123456789abcdef"))).value();
  EXPECT_EQ(read.tokenizer, "0123456789abcdef");
  EXPECT_EQ(read.vocabulary, 300);
  EXPECT_FALSE(read.bos);
  EXPECT_EQ(read.eod, 256);
  EXPECT_EQ(read.documents, 1);
  EXPECT_EQ(read.tokens, 100);
  EXPECT_EQ(read.bytes_per_token(), 2.5);
  EXPECT_TRUE(read.append_eod);
  EXPECT_FALSE(read.prepend_bos);
  EXPECT_EQ(read.json_keys, (std::vector<std::string>{"text", "ti\"tle"}));
}

TEST(SidecarFile, IsNoneWhereTheFileIsMissingOrAnother) {
  const ScratchDirectory folder;
  EXPECT_FALSE(read_sidecar(folder / "a"));
  folder.write("a.json", "{\"text\": \"of a user\"}\n{\"text\": \"and more\"}\n");
  EXPECT_FALSE(read_sidecar(folder / "a"));
  EXPECT_TRUE(is_taken(folder / "a.json"));
  corpus(folder, "a", "");  // removes no file of others
  EXPECT_EQ(folder.files(), 3u);
}

TEST(SidecarFile, NamesTheMemberThatIsWrong) {
  const ScratchDirectory folder;
  corpus(folder, "a", "00");
  const std::string good = folder.read("a.json");
  const auto with = [&](const std::string& old, const std::string& now) {
    std::string text = good;
    EXPECT_NE(text.find(old), std::string::npos) << old;
    folder.write("a.json", text.replace(text.find(old), old.size(), now));
    return message_of(folder, [&] { read_sidecar(TokenFile(folder / "a")); });
  };
  EXPECT_EQ(with("\"vocabulary\":300,", ""),
            "a.json: vocabulary is missing; expected a whole number from 1 to 2147483647");
  EXPECT_EQ(with("300", "\"300\""),
            "a.json: vocabulary is \"300\"; expected a whole number from 1 to 2147483647");
  EXPECT_EQ(with("300", "0"),
            "a.json: vocabulary is 0; expected a whole number from 1 to 2147483647");
  EXPECT_EQ(with("256", "-1"), "a.json: eod is -1; expected a whole number from 0 on");
  EXPECT_EQ(with("true", "1"), "a.json: append_eod is 1; expected true or false");
  EXPECT_EQ(with("corpus\":1", "corpus\":2"),
            "a.json: trireme_corpus is 2, but this version of trireme reads 1");
  EXPECT_EQ(with("[\"text\"", "[7"), "a.json: json_keys[0] is 7; expected a text");
  EXPECT_EQ(with("}", ""), "a.json: this is not JSON at byte 209: it ends too early");
  EXPECT_THAT(with("\"tokens\":100", "\"tokens\":99"),
              HasSubstr("a.json: is of 1 documents with 99 tokens, but a.bin has 1 with 100"));
}

TEST(SidecarFile, OfOtherTokensGoesWithThem) {
  const ScratchDirectory folder;
  corpus(folder, "a", "00");
  corpus(folder, "a", "");
  EXPECT_FALSE(std::filesystem::exists(folder / "a.json"));
}

std::array<TokenPart, 3> open(const std::vector<std::string>& prefixes) {
  std::vector<WeightedPath> paths;
  for (const std::string& prefix : prefixes) paths.push_back({1, prefix});
  return open_token_parts(paths, parse_split("1"), {9, 300, 1});
}

TEST(Tokenizers, OfABlendAreOneAndPartOfItsIdentity) {
  const ScratchDirectory folder;
  const std::string a = corpus(folder, "a", "00aa"), b = corpus(folder, "b", "00aa"),
                    none = corpus(folder, "none", ""), other = corpus(folder, "other", "00bb");
  const auto facts = [](const std::array<TokenPart, 3>& parts) {
    std::vector<std::string> all;
    for (const auto& [name, value] : parts[0].source->identity())
      if (name == tokenizer_fact) all.push_back(value);
    return all;
  };
  EXPECT_THAT(facts(open({a})), testing::ElementsAre("00aa"));
  EXPECT_THAT(facts(open({none, a, b})), testing::ElementsAre("00aa"));
  EXPECT_THAT(facts(open({none})), testing::ElementsAre());
  EXPECT_EQ(open({a})[0].source->file_of(tokenizer_fact), a + ".json");
  EXPECT_EQ(message_of(folder,
                       [&] {
                         open({a, none, other});
                       }),
            "other.json: has tokens of tokenizer 00bb, and a.json of 00aa; prepare all texts of a "
            "blend with one tokenizer");
  const auto swept =
      open_swept_parts({{1, none}, {1, a}}, parse_split("0,1"), Part::valid, {9, 300, 1});
  for (const SweptPart& part : swept)
    EXPECT_THAT(part.source->identity(), testing::Contains(testing::Pair(tokenizer_fact, "00aa")));
  EXPECT_EQ(swept[1].source->file_of(tokenizer_fact), a + ".json");
  const std::vector<WeightedPath> two = {{1, a}, {1, other}};
  EXPECT_THAT(message_of(folder,
                         [&] {
                           open_swept_parts(two, parse_split("0,1"), Part::valid, {9, 300, 1});
                         }),
              HasSubstr("prepare all texts of a blend with one tokenizer"));
}

// The hash of a tokenizer says nothing of it.
TEST(DocumentEnds, OfABlendAreOneToken) {
  const ScratchDirectory folder;
  const std::string a = corpus(folder, "a", "00"), b = corpus(folder, "b", "00"),
                    none = corpus(folder, "none", ""),
                    plain = corpus(folder, "plain", "00", 250, std::nullopt),
                    other = corpus(folder, "other", "00", 250, 255);
  const auto end = common_document_end({none, plain, a, b});
  ASSERT_TRUE(end);
  EXPECT_EQ(end->token, 256);
  EXPECT_EQ(end->file, b + ".json");
  EXPECT_FALSE(common_document_end({none, plain}));
  EXPECT_TRUE(open({a, plain, b})[0].source);
  EXPECT_TRUE(open({other, plain})[0].source);
  const std::string different =
      "other.json: its documents end with token 255, and those of a.json with 256; prepare all "
      "texts of a blend with one such token, which tokenizer_config.json beside tokenizer.json "
      "says";
  EXPECT_EQ(message_of(folder, [&] { open({a, plain, other}); }), different);
  const std::vector<WeightedPath> two = {{1, a}, {1, other}};
  const auto sweep = [&] { open_swept_parts(two, parse_split("0,1"), Part::valid, {9, 300, 1}); };
  EXPECT_EQ(message_of(folder, sweep), different);
}

TEST(BytesPerTarget, AreThoseOfATokenDrawnFromTheBlend) {
  const ScratchDirectory folder;
  const std::string a = corpus(folder, "a", "00aa"), b = corpus(folder, "b", "00aa", 850),
                    none = corpus(folder, "none", "");
  EXPECT_EQ(open({a})[0].source->bytes_per_target(), 2.5);
  EXPECT_FALSE(open({none})[0].source->bytes_per_target());
  EXPECT_FALSE(open({a, none})[0].source->bytes_per_target());
  const auto blend = open_token_parts({{3, a}, {1, b}}, parse_split("1"), {9, 300, 1});
  EXPECT_EQ(blend[0].source->bytes_per_target(), (3 * 2.5 + 8.5) / 4);
  const auto swept =
      open_swept_parts({{3, a}, {1, b}}, parse_split("0,1"), Part::valid, {9, 300, 1});
  EXPECT_EQ(swept[1].source->bytes_per_target(), 8.5);
}

}  // namespace
}  // namespace trireme::data
