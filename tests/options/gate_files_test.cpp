// The configuration gate on files: missing, damaged and unsuitable data, each with what the message
// must say.
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/data/token_file.h"
#include "trireme/options/gpt_options.h"

#include "tests/options/gpt_command_line.h"
#include "tests/support/recorded_problems.h"
#include "tests/support/scratch_directory.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

/// Data of 5000 bytes under a fresh prefix.
class GateFiles : public testing::Test {
 protected:
  GateFiles() {
    TokenFileWriter writer(prefix_, TokenType::u8);
    writer.add(std::vector<std::int64_t>(5000, 'x'));
    writer.end_document();
    writer.finish();
    gpt_.data_path = {prefix_};
  }

  std::vector<std::string> problems() const {
    test::RecordedProblems problems;
    open_gpt_data(options_, gpt_, problems);
    return problems.all();
  }
  /// Overwrites one byte of PREFIX.idx.
  void damage_index(Index offset, char value) const {
    std::fstream file(prefix_ + ".idx", std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(offset);
    file.put(value);
  }

  const ScratchDirectory directory_;
  const std::string prefix_ = directory_ / "data";
  Options options_;
  GptOptions gpt_;
};

TEST_F(GateFiles, GoodDataHasNoProblem) { EXPECT_THAT(problems(), ElementsAre()); }

TEST_F(GateFiles, NoDataPath) {
  gpt_.data_path.clear();
  EXPECT_THAT(problems(), ElementsAre(AllOf(HasSubstr("--data-path is missing"),
                                            HasSubstr("trireme data prepare"))));
}
TEST_F(GateFiles, NoSuchPrefix) {
  gpt_.data_path = {directory_ / "missing/corpus"};
  EXPECT_THAT(problems(),
              ElementsAre(AllOf(HasSubstr(directory_ / "missing/corpus.idx"),
                                EndsWith("; make it from text: trireme data prepare --input "
                                         "FILE... --output " +
                                         (directory_ / "missing/corpus")))));
}
TEST_F(GateFiles, ATextIsNoPrefix) {
  const std::string text = directory_.write("book.txt", "text");
  gpt_.data_path = {text};
  EXPECT_THAT(
      problems(),
      ElementsAre(EndsWith("book.txt.idx: cannot be opened: No such file or directory; " + text +
                           " is a file, not a PREFIX; if it is text: trireme data prepare "
                           "--input " +
                           text + " --output " + (directory_ / "book"))));
}
TEST_F(GateFiles, AFileThatExistsNeedNotBeMade) {
  damage_index(0, 'X');
  gpt_.data_path = {"1", prefix_, "1", directory_ / "missing"};
  EXPECT_THAT(problems(), ElementsAre(Not(HasSubstr("make it"))));
}
TEST_F(GateFiles, TokensMissing) {
  std::filesystem::remove(prefix_ + ".bin");
  EXPECT_THAT(problems(), ElementsAre(HasSubstr(prefix_ + ".bin")));
}
TEST_F(GateFiles, TokensTruncated) {
  std::filesystem::resize_file(prefix_ + ".bin", 4000);
  EXPECT_THAT(problems(), ElementsAre(AllOf(HasSubstr(prefix_ + ".bin"), HasSubstr("4000"),
                                            HasSubstr("5000"))));
}
TEST_F(GateFiles, IndexTruncated) {
  std::filesystem::resize_file(prefix_ + ".idx", 40);
  EXPECT_THAT(problems(), ElementsAre(HasSubstr(prefix_ + ".idx")));
}
TEST_F(GateFiles, IndexOfAnotherKind) {
  damage_index(0, 'X');
  EXPECT_THAT(problems(), ElementsAre(HasSubstr(prefix_ + ".idx")));
}
TEST_F(GateFiles, IndexOfAnotherVersion) {
  damage_index(9, 7);
  EXPECT_THAT(problems(), ElementsAre(AllOf(HasSubstr(prefix_ + ".idx"), HasSubstr("version"))));
}
TEST_F(GateFiles, UnknownTokenType) {
  damage_index(17, 99);
  EXPECT_THAT(problems(), ElementsAre(AllOf(HasSubstr(prefix_ + ".idx"), HasSubstr("99"))));
}
TEST_F(GateFiles, SplitIsNoNumbers) {
  gpt_.split = "ninety,ten";
  EXPECT_THAT(problems(), testing::Contains(HasSubstr("ninety")));
}
TEST_F(GateFiles, NoTrainingData) {
  gpt_.split = "0,100,0";
  EXPECT_THAT(problems(), ElementsAre(HasSubstr("--split 0,100,0: no training data")));
}
TEST_F(GateFiles, NoValidationData) {
  gpt_.split = "100,0,0";
  EXPECT_THAT(problems(), ElementsAre());
  options_.eval_interval = 10;
  EXPECT_THAT(problems(),
              ElementsAre(AllOf(HasSubstr("--eval-interval 10"), HasSubstr("no validation data"))));
}
TEST_F(GateFiles, LessThanOneSample) {
  gpt_.model.seq_length = 6000;
  EXPECT_THAT(problems(), ElementsAre(HasSubstr("no training data")));
}
TEST_F(GateFiles, WeightWithoutPrefix) {
  gpt_.data_path = {"0.3", prefix_, "0.7"};
  EXPECT_THAT(problems(), ElementsAre(HasSubstr("0.7")));
}
TEST_F(GateFiles, NegativeWeight) {
  gpt_.data_path = {"-1", prefix_, "2", prefix_};
  EXPECT_THAT(problems(), ElementsAre(HasSubstr("-1")));
}

std::vector<std::string> problems_of_loading(const std::string& directory) {
  return GptCommandLine("--load " + directory, 1).problems.all();
}

TEST_F(GateFiles, ACheckpointOfAnotherProgramIsNoEmptyDirectory) {
  const std::string of_megatron = directory_ / "megatron", of_ours = directory_ / "ours";
  std::filesystem::create_directories(of_megatron + "/iter_0000010");
  std::filesystem::create_directories(of_ours + "/step-000010");
  std::ofstream(of_megatron + "/latest_checkpointed_iteration.txt") << 10;
  EXPECT_THAT(problems_of_loading(of_megatron),
              ElementsAre(HasSubstr("--load " + of_megatron +
                                    ": holds iter_0000010 of another program and no step of "
                                    "trireme; other checkpoints are not read")));
  const std::string of_hf = directory_ / "hf";
  std::filesystem::create_directories(of_hf);
  std::ofstream(of_hf + "/model.safetensors") << "x";
  EXPECT_THAT(problems_of_loading(of_hf),
              ElementsAre(AllOf(HasSubstr("--load " + of_hf + ": holds model.safetensors of "),
                                HasSubstr("begin with such a model by --load-hf " + of_hf))));
  std::ofstream(of_ours + "/latest") << "a note";
  EXPECT_THAT(problems_of_loading(of_ours), ElementsAre());
}

}  // namespace
}  // namespace trireme
