// What trireme plan says: the table, the refusals, what would help, and the command line.
#include "runtime/layouts/search/answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/layouts/report/report.h"
#include "runtime/layouts/report/text.h"
#include "tests/layouts/task.h"
#include "tests/support/as_one_line.h"

namespace trireme::layouts {
namespace {

using testing::Contains;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::Not;

Question question_of(const std::string& cluster, const std::vector<std::string>& words) {
  Question question;
  question.cluster = read_cluster(cluster);
  question.words = words;
  return question;
}

class AnswerTest : public testing::Test {
 protected:
  const std::vector<std::string> words_ = {"--model", "tiny", "--global-batch-size", "64"};
  const std::unique_ptr<TrainingTask> task_ = task_of(words_);
  Question question_ = question_of("2x2xH100", words_);

  AnswerTest() { question_.aim.pins = parse_pins("chunks=1"); }

  std::string say() const { return report(*task_, question_, answer(*task_, question_)); }
};

TEST_F(AnswerTest, HasATableTheBarTheMemoryTheRefusalsAndTheCommand) {
  question_.tokens = 1e9;
  set_price(question_.cluster, "2");
  const std::string text = say();
  for (const char* part :
       {"0.8 M parameters, sequence 128, bf16, batch 64 | 4 H100-SXM of ",
        "profile: data sheet",
        "\n 1 > tp ",
        "\n 2   tp ",
        "tokens/s",
        "MFU",
        "bubble",
        "cost",
        "time of 1   ",
        "memory      stage ",
        "fp32 masters ",
        "\ncheckpoint  ",
        " a save; a rank writes at most ",
        "parameters ",
        "context and communicators (estimate) ",
        "kWh: GPUs at the limit",
        "\nMFU         of the peak in bf16",
        "\nnot proved  no GPU has run this program yet",
        "nearest refusals\n",
        " layouts: ",
        " planned exactly",
        "what would help most   ",
        "\nmpirun -np 4 --map-by ppr:2:node train_gpt --model tiny --global-batch-size 64 --bf16"})
    EXPECT_THAT(text, HasSubstr(part));
}

std::size_t widest_line(const std::string& text) {
  std::size_t most = 0, begin = 0;
  for (std::size_t end; begin < text.size(); begin = end + 1) {
    end = std::min(text.find('\n', begin), text.size());
    most = std::max(most, columns_of(text.substr(begin, end - begin)));
  }
  return most;
}

TEST_F(AnswerTest, FitsAScreen) {
  question_.tokens = 15e12;
  set_price(question_.cluster, "2.5");
  for (const char* pins : {"chunks 1", "zero 0 sp 0 chunks 8 full tp 2"})
    for (const char* explained : {"", "tp 2"}) {
      question_.aim.pins = parse_pins(pins);
      question_.explain = *explained == '\0' ? LayoutPins() : parse_pins(explained);
      EXPECT_LE(widest_line(say()), 100) << say();
    }
  question_.explain = {};
  question_.aim.margin = 0.9999;
  EXPECT_LE(widest_line(say()), 100) << say();
}

TEST_F(AnswerTest, SaysOfWhichGpusNoPublishedRunWasCompared) {
  EXPECT_THAT(as_one_line(say()), HasSubstr("by published runs of other programs"));
  EXPECT_THAT(describe_grade(read_cluster("8x4090")),
              HasSubstr("no published run of RTX-4090 was compared"));
  Cluster calibrated = read_cluster("8x4090");
  calibrated.groups.front().profile.grade = cost::Grade::calibrated;
  calibrated.groups.front().profile.spread = 0.05;
  EXPECT_EQ(describe_grade(calibrated), "calibrated (times ± 5 %)");
  EXPECT_EQ(describe_grade(calibrated, true), "tried (times ± 5 %)");
}

TEST_F(AnswerTest, OfGpusThatCannotRunHasNoCommandLine) {
  question_ = question_of("2x2xMI300X", words_);
  question_.aim.pins = parse_pins("chunks=1");
  const std::string text = say();
  EXPECT_THAT(text, HasSubstr("\n 1 > tp "));
  EXPECT_THAT(text, HasSubstr("\ncannot run  MI300X: there is no backend for GPUs of AMD"));
  EXPECT_THAT(text, Not(HasSubstr("mpirun")));
  const Json json = to_json(*task_, question_, answer(*task_, question_));
  EXPECT_EQ(json.find("command"), nullptr);
}

TEST(Table, WrapsTheWidestOfItsColumnsThatMay) {
  Table table({{"", false, 1}, {"layout", true}, {"why", true}, {"step"}});
  table.add({"1 >", "tp 1  pp 2", std::string(40, 'a') + ' ' + std::string(50, 'b'), "3 s"});
  table.add_note("a note");
  EXPECT_EQ(table.text(), "    layout      why" + std::string(49, ' ') + "step\n" +
                              "1 > tp 1  pp 2  " + std::string(40, 'a') + std::string(13, ' ') +
                              "3 s\n" + std::string(16, ' ') + std::string(50, 'b') +
                              "\n     a note\n");
}

TEST_F(AnswerTest, HasNoCostWithoutAPriceAndNoHoursWithoutTokens) {
  set_price(question_.cluster, "2");
  EXPECT_THAT(say(), Not(HasSubstr("  cost")));
  question_.tokens = 1e9;
  EXPECT_THAT(say(), HasSubstr("  cost"));
  for (GpuGroup& group : question_.cluster.groups) group.price = 0;
  EXPECT_THAT(say(), Not(HasSubstr("  cost")));
}

TEST_F(AnswerTest, HasHoursAndCostThatFollowFromTheStep) {
  question_.tokens = 64 * 128 * 3600.0;
  set_price(question_.cluster, "2");
  Evaluated layout;
  layout.time.total = 0.5;
  layout.time.bubble = 0.1;
  const Figures figures = figures_of(*task_, question_, layout);
  EXPECT_DOUBLE_EQ(figures.tokens_per_s, 2 * 64 * 128);
  EXPECT_DOUBLE_EQ(figures.hours, 0.5);
  EXPECT_DOUBLE_EQ(figures.cost, 0.5 * 4 * 2);
  EXPECT_DOUBLE_EQ(figures.energy_kwh, 0.5 * 4 * 0.7);
  EXPECT_DOUBLE_EQ(figures.bubble, 0.2);
  const double peak = 4 * question_.cluster.groups[0].profile.peak_bf16;
  EXPECT_DOUBLE_EQ(figures.mfu, figures.tokens_per_s * task_->model().flops_per_token() / peak);
}

TEST_F(AnswerTest, OfTooLittleMemorySaysTheLeastNeedAndWhatWouldFit) {
  GpuGroup& group = question_.cluster.groups.front();
  const Answer roomy = answer(*task_, question_);
  ASSERT_TRUE(roomy.fits());
  // Just below what the least needs on so many GPUs.
  Searcher searcher(*task_, group.profile.device);
  const auto least = find_least_need(searcher, group, searcher.search(group, question_.aim));
  ASSERT_TRUE(least);
  question_.aim.margin = 0;
  group.profile.memory = least->bytes - 1;
  const Answer none = answer(*task_, question_);
  EXPECT_FALSE(none.fits());
  const std::string text = report(*task_, question_, none);
  EXPECT_THAT(text, HasSubstr("none of "));
  EXPECT_THAT(text, HasSubstr(": least "));
  EXPECT_THAT(text, Not(HasSubstr("mpirun")));
  EXPECT_EQ(none.least_need->bytes, least->bytes);
}

TEST_F(AnswerTest, OfNoLegalLayoutHasTheReasonOfTheGate) {
  question_.aim.pins = parse_pins("tp=3");
  EXPECT_THAT(as_one_line(say()), HasSubstr("is legal: tp 3 x pp 1 does not divide 4 ranks"));
}

TEST_F(AnswerTest, ExplainsALayoutPartByPartBesideTheChosenOne) {
  question_.explain = parse_pins("tp 2 pp 2");
  const std::string text = say();
  EXPECT_THAT(text, HasSubstr("\ntp 2  pp 2  "));
  EXPECT_THAT(text, HasSubstr("\nbeside the chosen one: tp "));
  EXPECT_THAT(text, HasSubstr("   products "));
  EXPECT_THAT(text, HasSubstr("   recomputed "));
  question_.explain = parse_pins("tp 8");
  EXPECT_THAT(say(), HasSubstr("no such layout: tp 8 x pp 1 does not divide 4 ranks"));
}

TEST_F(AnswerTest, NamesAllCandidatesWithTheirVerdictInJson) {
  const Answer found = answer(*task_, question_);
  const Json json = to_json(*task_, question_, found);
  const auto& candidates = std::get<Json::Array>(json.find("candidates")->value);
  EXPECT_EQ(candidates.size(), found.result.considered.size());
  for (const Json& each : candidates) ASSERT_NE(each.find("verdict"), nullptr);
  const auto& best = std::get<Json::Array>(json.find("best")->value);
  ASSERT_EQ(best.size(), found.result.best.size());
  const Json& first = best.front();
  EXPECT_EQ(std::get<double>(first.find("step_s")->value), found.chosen().time.total);
  double parts = 0;
  for (const auto& [part, seconds] : std::get<Json::Object>(first.find("parts_s")->value))
    parts += std::get<double>(seconds.value);
  EXPECT_NEAR(parts, found.chosen().time.total, 1e-9);
  EXPECT_EQ(std::get<Json::Array>(first.find("ranks")->value).size(),
            found.chosen().plan.ranks.size());
  EXPECT_NO_THROW(parse_json(to_text(json)));
  EXPECT_EQ(std::get<std::string>(
                std::get<Json::Array>(json.find("cluster")->value).front().find("grade")->value),
            "data sheet");
}

TEST_F(AnswerTest, SaysWhatTheCommandLineLacks) {
  EXPECT_THAT(say(),
              HasSubstr("\n# to train, add --data-path CORPUS --save RUN --train-iters N (or "
                        "plan with --tokens)\nmpirun -np "));
  question_.words.insert(question_.words.end(), {"--train-iters", "9"});
  EXPECT_THAT(say(), HasSubstr("\n# to train, add --data-path CORPUS --save RUN\nmpirun -np "));
  const auto task = task_of({"--data-path", "c", "--save", "r", "--train-iters", "9"});
  EXPECT_EQ(comment_of_command(*task, question_), "");
}

TEST_F(AnswerTest, HasTheSameMpirunLineInJson) {
  const Answer found = answer(*task_, question_);
  const Json json = to_json(*task_, question_, found);
  std::vector<std::string> words;
  for (const Json& word : std::get<Json::Array>(json.find("command")->value))
    words.push_back(std::get<std::string>(word.value));
  EXPECT_THAT(words, ElementsAreArray(launch_words(*task_, question_, found.chosen().layout)));
  EXPECT_THAT(words, Contains("train_gpt"));
}

TEST(Figures, ShowTimesInTheUnitThatPeopleUse) {
  EXPECT_EQ(show_hours(0.01), "36 s");
  EXPECT_EQ(show_hours(0.5), "30.0 min");
  EXPECT_EQ(show_hours(43.12), "43.1 h");
  EXPECT_EQ(show_hours(9600.5), "400 days");
  EXPECT_EQ(show_hours(300), "12.5 days");
}

TEST(Figures, ShowCommandsInLinesOfAScreen) {
  const std::string value(40, 'a');
  EXPECT_EQ(
      shell_command({"mpirun", "-np", "2", "train_gpt", "--one", value, "--two", value, "--x"}),
      "mpirun -np 2 train_gpt --one " + value + " \\\n  --two " + value + " --x\n");
}

TEST(Parts, AddUpToTheStepAndAreSorted) {
  cost::StepTime time;
  time.products = 5;
  time.bubble = 2;
  time.attention = 3;
  const auto parts = parts_of(time);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0].first, "products");
  EXPECT_EQ(parts[1].first, "attention");
  EXPECT_EQ(parts[2].first, "bubble");
}

TEST(Classes, AddUpToTheBytesOfTheDevice) {
  MemoryNeed need;
  need.parameters = 4096;
  need.masters = 1024;
  need.activations = 8192;
  need.products = 100;
  Index sum = 0;
  for (const auto& [name, bytes] : classes_of(need)) sum += bytes;
  EXPECT_EQ(sum, need.device());
}

}  // namespace
}  // namespace trireme::layouts
