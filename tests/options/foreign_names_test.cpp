// Names of other programs: each answer names options that exist, and none hides one of ours.
#include "runtime/options/foreign_names.h"

#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/options/gpt_command_line.h"
#include "tests/support/recorded_problems.h"

namespace trireme::options {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

TEST(ForeignNames, EveryAnswerNamesOptionsThatExist) {
  const GptCommandLine line("", 1);
  const std::vector<std::string> declared = line.command.names();
  for (const ForeignName& entry : foreign_names())
    for (const std::string& option : options_in(entry.answer))
      EXPECT_THAT(declared, Contains(option)) << entry.answer;
}

TEST(ForeignNames, NoNameIsThereTwiceOrIsAnOptionOfTrireme) {
  const GptCommandLine line("", 1);
  const std::vector<std::string> declared = line.command.names();
  std::set<std::string> seen;
  for (const ForeignName& entry : foreign_names())
    for (const std::string& name : words_of(entry.names)) {
      EXPECT_TRUE(seen.insert(name).second) << name;
      EXPECT_THAT(declared, Not(Contains("--" + name)));
      EXPECT_EQ(find_foreign_name("--" + name), &entry) << name;
    }
  EXPECT_GT(seen.size(), 200u);
}

struct Answer {
  std::string line;
  std::vector<std::string> parts;  // of the one message
};
void PrintTo(const Answer& answer, std::ostream* out) { *out << answer.line; }

class ForeignLine : public testing::TestWithParam<Answer> {};

TEST_P(ForeignLine, IsAnsweredByWhatIsRightHere) {
  const GptCommandLine line(GetParam().line, 1);
  ASSERT_EQ(line.problems.all().size(), 1u) << testing::PrintToString(line.problems.all());
  for (const std::string& part : GetParam().parts)
    EXPECT_THAT(line.problems.all().front(), HasSubstr(part));
}

const Answer answers[] = {
    {"--swiglu", {"unknown option --swiglu; use --activation swiglu"}},
    {"--use-rotary-position-embeddings", {"use --position-embedding-type rope"}},
    {"--no-position-embedding", {"use --position-embedding-type rope"}},
    {"--group-query-attention", {"leave it out: --num-query-groups N"}},
    {"--fp16", {"use --bf16", "no loss scaling"}},
    {"--recompute-activations", {"use --recompute-granularity selective"}},
    {"--num-layers-per-virtual-pipeline-stage 2", {"--num-virtual-stages-per-pipeline-rank"}},
    {"--tensorboard-dir tb", {"use --metrics FILE"}},
    {"--vocab-file vocab.json", {"trireme data prepare", "--vocab-size"}},
    {"--exit-duration-in-mins 30", {"use --exit-duration-seconds"}},
    {"--overlap-grad-reduce", {"leave it out"}},
    {"--rampup-batch-size 16 16 1000", {"trireme has none", "--global-batch-size"}},
    {"--n_layer=4", {"unknown option --n_layer=4; use --num-layers N"}},
    {"--block_size 128", {"use --seq-length N"}},
    {"--training.steps 100", {"use --train-iters N"}},
    {"--per_device_train_batch_size 4", {"use --micro-batch-size N"}},
    {"--lerning-rate 1", {"unknown option --lerning-rate; --help lists all"}},
    {"--reset-attention-mask",
     {"trireme has none: attention crosses the documents", "missing.md)"}},
    {"--eod-mask-loss", {"trireme has none: the loss crosses documents"}},
    {"--lora-rank 8", {"trireme has no adapters", "--freeze PARTS", "what_is_missing.md)"}},
    {"--use_ema", {"it keeps no average of the weights"}},
    {"--sliding-window 4096", {"trireme has none: attention sees the whole sample"}},
    {"--attention-bias", {"--add-attention-bias"}},
    {"--dpq", {"unknown option --dpq; --help lists all"}},
    {"--lorb 3", {"unknown option --lorb; --help lists all"}},
    {"--max-lr 1e-3", {"unknown option --max-lr; use --lr X"}},
    {"--use-8bit-optimizer", {"no quantised weights or states"}},
    {"--zero-stage 1", {"use --use-distributed-optimizer"}},
};
INSTANTIATE_TEST_SUITE_P(Table, ForeignLine, testing::ValuesIn(answers));

/// The page that the hints name.
std::string page_text() {
  std::ifstream in(std::string(TRIREME_SOURCE_DIR "/") + page_of_missing);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(ForeignNames, ThePageOfWhatIsMissingNamesEachThing) {
  const std::string page = page_text();
  for (const ForeignName& entry : foreign_names())
    if (entry.missing) {
      EXPECT_THAT(page, HasSubstr("`--" + words_of(entry.names).front() + "`"));
    }
}

TEST(ForeignNames, AWordBehindTheValuesOfAForeignOptionIsStillAMistake) {
  const GptCommandLine line("--rampup-batch-size 16 16 1000 7", 1);
  EXPECT_THAT(line.problems.all(),
              ElementsAre(HasSubstr("--rampup-batch-size"), HasSubstr("unexpected argument '7'")));
}

TEST(ForeignNames, AProgramWithoutTheOptionOfTheAnswerAnswersWithTheNearestName) {
  Index layers = 0;
  CommandLine command("own", "");
  command.whole("--n-layerz", layers, at_least(1), "layers");
  test::RecordedProblems problems;
  const char* words[] = {"own", "--n-layers", "3"};
  command.parse(3, words, problems);
  EXPECT_THAT(problems.all(), ElementsAre("unknown option --n-layers; did you mean --n-layerz?"));
}

}  // namespace
}  // namespace trireme::options
