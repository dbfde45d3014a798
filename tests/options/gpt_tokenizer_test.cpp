// --tokenizer: data, generated texts and the model of --load-hf have one tokenizer.
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/options/prompts.h"

#include "runtime/data/prepare/encoder.h"
#include "runtime/data/prepare/sidecar.h"
#include "tests/data/tokenizer/small_tokenizer.h"
#include "tests/options/gpt_command_line.h"

namespace trireme {
namespace {

using data::SmallTokenizer;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class GptTokenizer : public testing::Test {
 protected:
  /// Returns the directory of a tokenizer.json.
  std::string tokenizer(const std::string& name, const SmallTokenizer& small) const {
    std::filesystem::create_directory(folder_ / name);
    folder_.write(name + "/tokenizer.json", small.json());
    return folder_ / name;
  }
  static std::string hash(const std::string& directory) {
    return data::Tokenizer::load(directory).hash();
  }
  /// Tokens of a tokenizer of this hash; none: without a sidecar.
  std::string corpus(const std::string& hash, Index vocabulary = 256,
                     std::optional<Index> appended = std::nullopt) const {
    const std::string prefix = folder_ / "corpus";
    TokenFileWriter writer(prefix, TokenType::u16);
    writer.add(std::vector<std::int64_t>(400, 7));
    writer.end_document();
    Sidecar sidecar;
    sidecar.tokenizer = hash;
    sidecar.vocabulary = vocabulary;
    sidecar.documents = 1;
    sidecar.tokens = 400;
    sidecar.text_bytes = 900;
    sidecar.eod = appended;
    sidecar.append_eod = appended.has_value();
    writer.finish(hash.empty() ? "" : data::text_of(sidecar));
    return prefix;
  }
  std::vector<std::string> open(const std::string& words, const std::string& load_hf = "") {
    GptCommandLine line("--seq-length 16 --split 1 " + words, 1);
    line.options.checkpoint.load_hf = load_hf;
    data_ = open_gpt_data(line.options, line.gpt, line.problems);
    return line.problems.all();
  }

  ScratchDirectory folder_;
  GptData data_;
};

TEST_F(GptTokenizer, MakesTokensOfPromptsAndEndsTexts) {
  const SmallTokenizer small = SmallTokenizer().merge("T", "h").add("<|endoftext|>");
  const std::string path = tokenizer("one", small);
  const std::string line =
      "--generate 5 --prompt Th. --tokenizer " + path + " --data-path " + corpus(hash(path), 258);
  EXPECT_THAT(open(line), IsEmpty());
  EXPECT_EQ(data_.encoder->hash(), hash(path));
  EXPECT_EQ(data_.tokenizer.hash, hash(path));
  EXPECT_THAT(data_.description.back(), HasSubstr("258 tokens; texts end at token 257"));
  EXPECT_THAT(data_.warnings, IsEmpty());
  GptCommandLine parsed(line, 1);
  const auto prompts = open_prompts(parsed.gpt, data_.encoder.get(), parsed.problems);
  ASSERT_EQ(prompts.size(), 1u);
  EXPECT_THAT(prompts[0].tokens, ElementsAre(256, small.token(".")));
}

TEST_F(GptTokenizer, IsThatOfDataWithoutASidecar) {
  const std::string path = tokenizer("one", SmallTokenizer());
  EXPECT_THAT(open("--generate 5 --tokenizer " + path + " --data-path " + corpus("")), IsEmpty());
  EXPECT_THAT(data_.train->identity(), testing::Contains(testing::Pair("tokenizer", hash(path))));
  EXPECT_THAT(open("--generate 5 --data-path " + corpus("")), IsEmpty());
  EXPECT_EQ(data_.tokenizer.hash, "bytes");
  EXPECT_THAT(open("--data-path " + corpus("")), IsEmpty());
  EXPECT_EQ(data_.tokenizer.hash, "");
}

TEST_F(GptTokenizer, EndsTextsAtTheTokenThatEndsDocumentsOfTheData) {
  const SmallTokenizer small = SmallTokenizer().add("<|endoftext|>").add("<|other|>");
  const std::string path = tokenizer("one", small);
  const auto problems = [&](std::optional<Index> appended) {
    return open("--generate 5 --vocab-size 258 --tokenizer " + path + " --data-path " +
                corpus(hash(path), 258, appended));
  };
  EXPECT_THAT(problems(256), IsEmpty());
  EXPECT_THAT(problems(std::nullopt), IsEmpty());
  const std::string begin = "--tokenizer " + path,
                    end = ", but documents of the data end with 257 (" + (folder_ / "corpus.json") +
                          "); have 257 as eos_token in tokenizer_config.json beside "
                          "tokenizer.json, or prepare the text again";
  EXPECT_THAT(problems(257), ElementsAre(begin + " ends texts at token 256" + end));
  folder_.write("one/tokenizer_config.json", "{\"eos_token\": null}");
  EXPECT_THAT(problems(257), ElementsAre(begin + " has none that ends a text" + end));
  folder_.write("one/tokenizer_config.json", "{\"eos_token\": \"<|other|>\"}");
  EXPECT_THAT(problems(257), IsEmpty());
}

TEST_F(GptTokenizer, OfAnotherKindIsRefused) {
  const std::string one = tokenizer("one", SmallTokenizer());
  const std::string other = tokenizer("other", SmallTokenizer().merge("a", "b"));
  const std::string data = " --data-path " + corpus(hash(one)), generate = "--generate 5 ";
  EXPECT_THAT(open(generate + "--vocab-size 300 --tokenizer " + other + data),
              ElementsAre("--tokenizer " + other + " is " + hash(other) +
                          ", but the tokens of the data are those of tokenizer " + hash(one) +
                          " (" + (folder_ / "corpus.json") + "); give the one that made them"));
  EXPECT_THAT(open(generate + data),
              ElementsAre(testing::AllOf(HasSubstr("--generate 5 needs --tokenizer PATH"),
                                         HasSubstr(hash(one)))));
  EXPECT_THAT(open(generate + data, one), ElementsAre(HasSubstr("is --tokenizer " + one)));
  EXPECT_THAT(open(generate + "--tokenizer " + other + " --load /tmp"),
              ElementsAre("--vocab-size 256 is less than the 257 tokens of --tokenizer " + other +
                          "; the model must have them all"));
  EXPECT_THAT(open(generate + "--tokenizer " + (folder_ / "none") + " --load /tmp"),
              ElementsAre(HasSubstr("--tokenizer: " + (folder_ / "none"))));
}

TEST_F(GptTokenizer, IsReadOnceThoughModelAndTextsHaveIt) {
  const std::string one = tokenizer("one", SmallTokenizer());
  const std::size_t size = 4 << 20;
  folder_.write("one/tokenizer.json",
                SmallTokenizer().json() + std::string(size, ' '));  // as a large one
  const auto read = [] {  // bytes that this process has read
    std::string name;
    std::size_t bytes = 0;
    std::ifstream("/proc/self/io") >> name >> bytes;
    return bytes;
  };
  const std::string data = "--data-path " + corpus(hash(one));
  const std::size_t before = read();
  EXPECT_THAT(open("--generate 5 --tokenizer " + one + "/. " + data, one), IsEmpty());
  EXPECT_GT(read() - before, size);
  EXPECT_LT(read() - before, 2 * size);
}

TEST_F(GptTokenizer, OfTheModelMustBeThatOfTheData) {
  const std::string one = tokenizer("one", SmallTokenizer());
  const std::string other = tokenizer("other", SmallTokenizer().merge("a", "b"));
  const std::string data = "--data-path " + corpus(hash(one));
  EXPECT_THAT(open(data, one), IsEmpty());
  EXPECT_THAT(open(data, folder_.path()), IsEmpty());  // has no tokenizer.json
  EXPECT_THAT(open(data, other),
              ElementsAre("--load-hf " + other + ": tokens of this job are those of tokenizer " +
                          hash(one) + " (" + (folder_ / "corpus.json") +
                          "), and those of the model of tokenizer " + hash(other) + " (" + other +
                          "/tokenizer.json); prepare the text with --tokenizer " + other +
                          ", or, where tokenizer.json differs by added tokens alone that the text "
                          "does not have, put the one that made them in its place"));
  EXPECT_THAT(open("--generate 5 --load /tmp --tokenizer " + one + " --vocab-size 300", other),
              ElementsAre(HasSubstr("; give --tokenizer " + other)));
  EXPECT_THAT(open("--generate 5 --load /tmp", other),
              ElementsAre(testing::AllOf(HasSubstr("tokens of this job are bytes"),
                                         HasSubstr("; give --tokenizer " + other))));
  EXPECT_THAT(open("--generate 5 --load /tmp --vocab-size 300", other),
              ElementsAre(HasSubstr("--generate 5 needs --tokenizer PATH with --vocab-size 300")));
  folder_.write("other/tokenizer.json", "{}");
  EXPECT_THAT(open(data, other), IsEmpty());
  EXPECT_THAT(data_.warnings, ElementsAre(testing::AllOf(HasSubstr("cannot be compared"),
                                                         HasSubstr("model is missing"),
                                                         testing::Not(HasSubstr("\n")))));
}

}  // namespace
}  // namespace trireme
