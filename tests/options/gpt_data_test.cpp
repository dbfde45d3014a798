// What the log says of the data before training, and what is legal but probably not meant.
#include <fstream>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/data/token_file.h"

#include "tests/options/gpt_command_line.h"
#include "tests/support/scratch_directory.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class DescribedData : public testing::Test {
 protected:
  /// A file of documents of these lengths. Returns its prefix.
  std::string file(const std::string& name, const std::vector<Index>& lengths,
                   TokenType type = TokenType::u8) const {
    const std::string prefix = folder_ / name;
    TokenFileWriter writer(prefix, type);
    for (const Index length : lengths) {
      writer.add(std::vector<std::int64_t>(static_cast<std::size_t>(length), 7));
      writer.end_document();
    }
    writer.finish();
    return prefix;
  }
  static GptData open(const std::string& line) {
    GptCommandLine parsed(line, 1);
    GptData data = open_gpt_data(parsed.options, parsed.gpt, parsed.problems);
    EXPECT_THAT(parsed.problems.all(), IsEmpty());
    return data;
  }

  ScratchDirectory folder_;
};

TEST_F(DescribedData, SaysTokensDocumentsSamplesAndStepsOfAnEpochAndWhatValidationIs) {
  const std::string corpus = file("corpus", {4000, 4500, 500});
  EXPECT_THAT(
      open("--seq-length 16 --global-batch-size 4 --split 17,1 --data-path " + corpus).description,
      ElementsAre("data: train 8 500 tokens of documents 1 to 2, 531 samples, 132 steps an "
                  "epoch"));
  EXPECT_THAT(
      open("--seq-length 16 --global-batch-size 4 --split 17,1 --eval-interval 5 "
           "--data-path " +
           corpus)
          .description,
      ElementsAre(HasSubstr("epoch; validation 500 tokens of document 3 only, 31 samples")));
}

TEST_F(DescribedData, ShortOnesAreSaidToBeSo) {
  EXPECT_THAT(open("--seq-length 16 --split 1 --data-path " + file("short", {100})).description,
              ElementsAre("data: train 100 tokens of 1 document, 6 samples, less than one step an "
                          "epoch"));
}

TEST_F(DescribedData, ABlendHasALineForEachFile) {
  const std::string a = file("a", {100}), b = file("b", {50, 50});
  EXPECT_THAT(
      open("--seq-length 16 --split 1 --data-path 0.7 " + a + " 0.3 " + b).description,
      ElementsAre("data of " + a + ", weight 0.7: train 100 tokens of 1 document, 6 samples",
                  "data of " + b + ", weight 0.3: train 100 tokens of 2 documents, 6 samples"));
}

TEST_F(DescribedData, AVocabularyFarAboveTheTokenTypeIsAWarning) {
  const std::string bytes = file("bytes", {100}), words = file("words", {100}, TokenType::u16);
  const std::string line = "--seq-length 16 --split 1 --data-path ";
  EXPECT_THAT(open(line + bytes).warnings, IsEmpty());
  EXPECT_THAT(open(line + bytes + " --vocab-size 300").warnings, IsEmpty());
  EXPECT_THAT(open(line + bytes + " --vocab-size 50257").warnings,
              ElementsAre("--vocab-size 50257: the data has u8 tokens, for which --vocab-size 256 "
                          "is enough"));
  EXPECT_THAT(open(line + words + " --vocab-size 50257").warnings, IsEmpty());
  EXPECT_THAT(open(line + words + " --vocab-size 200000").warnings,
              ElementsAre(HasSubstr("--vocab-size 65536 is enough")));
  EXPECT_THAT(open(line + "1 " + bytes + " 1 " + words + " --vocab-size 50257").warnings,
              IsEmpty());
}

TEST_F(DescribedData, TheVocabularyIsThatOfTheSidecarUnlessItIsGiven) {
  const std::string corpus = file("corpus", {400}), line = "--data-path " + corpus;
  const auto vocabulary = [](const std::string& words) {
    return GptCommandLine(words, 1).gpt.model.vocab_size;
  };
  EXPECT_EQ(vocabulary(line), 256);
  std::ofstream(corpus + ".json")
      << "{\"trireme_corpus\":1,\"tokenizer\":\"00\",\"vocabulary\":777,\"bos\":null,\"eod\":null,"
         "\"documents\":1,\"tokens\":400,\"text_bytes\":900,\"empty_documents\":0,"
         "\"prepend_bos\":false,\"append_eod\":false,\"json_keys\":[]}";
  EXPECT_EQ(vocabulary(line), 777);
  EXPECT_EQ(vocabulary(line + " --model gpt2"), 777);
  EXPECT_EQ(vocabulary(line + " --vocab-size 1000"), 1000);
  EXPECT_EQ(vocabulary(line + " --use-checkpoint-args --load run"), 256);
}

TEST(GptWarnings, ANarrowModelWithThePresetsWideMlpIsOne) {
  const auto warnings = [](const std::string& line) {
    return GptCommandLine(line + " --num-query-groups 4", 1).gpt.warnings;
  };
  EXPECT_THAT(warnings("--model llama-1b --hidden-size 128"),
              ElementsAre("--model llama-1b has --ffn-hidden-size 8192, more than 8 times "
                          "--hidden-size 128; --ffn-hidden-size 512 is 4 times it"));
  EXPECT_THAT(warnings("--model llama-1b --hidden-size 1024"), IsEmpty());
  EXPECT_THAT(warnings("--model llama-1b --hidden-size 128 --ffn-hidden-size 8192"), IsEmpty());
  EXPECT_THAT(warnings("--hidden-size 16"), IsEmpty());
}

TEST(ModelOptions, AreThePresetAndWhatDiffersFromIt) {
  const auto of = [](const std::string& line) {
    return model_options(GptCommandLine(line, 1).command.configuration());
  };
  EXPECT_EQ(of(""), "--model tiny");
  EXPECT_EQ(of("--model tiny-llama --num-layers 2 --lr 1 --bf16"),
            "--model tiny-llama --num-layers 2");
  EXPECT_EQ(
      of("--model llama-1b --untie-embeddings-and-output-weights --disable-bias-linear=false"),
      "--model llama-1b --disable-bias-linear=false --untie-embeddings-and-output-weights");
  EXPECT_EQ(model_options({{"--lr", "1"}}), "");
  EXPECT_EQ(model_options({{"--model", "of another version"}}), "--model of another version");
}

TEST(Help, EndsWithTheSizesOfThePresets) {
  const std::string help = GptCommandLine("", 1).command.help();
  EXPECT_THAT(help, HasSubstr("\nPresets of --model:\n  preset "));
  EXPECT_THAT(
      help,
      HasSubstr("\n  tiny-llama   4      128         4     2            384   256        128 "));
}

TEST_F(DescribedData, IsOfValidationAloneWhereNothingIsTrained) {
  const std::string line = "--seq-length 16 --train-iters 0 --split 17,1 --data-path " +
                           file("corpus", {4000, 4500, 500});
  EXPECT_EQ(open(line).valid, nullptr);
  EXPECT_EQ(open(line + " --eval-interval 1").valid, nullptr);  // nothing is loaded
  const GptData data = open(line + " --eval-interval 1 --load run");
  EXPECT_NE(data.valid, nullptr);
  EXPECT_EQ(data.train, nullptr);
}

TEST_F(DescribedData, WarnsOfAnEvaluationThatReadsSamplesTwice) {
  const std::string line =
      "--seq-length 16 --global-batch-size 4 --split 17,1 --eval-interval 5 "
      "--data-path " +
      file("corpus", {4000, 4500, 500});
  EXPECT_THAT(open(line + " --eval-iters 8").warnings, IsEmpty());
  EXPECT_THAT(open(line + " --eval-iters 9").warnings,
              ElementsAre("--eval-iters 9: the 31 validation samples are read more than once; "
                          "--eval-iters 8 reads each"));
}

}  // namespace
}  // namespace trireme
