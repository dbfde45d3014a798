// What trireme plan says: the table, the refusals, what would help, and the command line.
#include "runtime/planner/search/answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/planner/report/report.h"
#include "runtime/planner/report/report_json.h"
#include "tests/planner/task.h"

namespace trireme::planner {
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
       {"0.8 M parameters, sequence 128, bf16, batch 64 | 4 H100-SXM of ", "profile: data sheet",
        "\n 1 > tp ", "\n 2   tp ", "tokens/s", "MFU", "bubble", "cost", "time of 1   ",
        "memory      stage ", "\ncheckpoint  ", " a save; a rank writes at most ", "parameters ",
        "+ context and communicators ", "nearest refusals\n", " layouts: ", " planned exactly",
        "what would help most   ",
        "\nmpirun -np 4 --map-by ppr:2:node train_gpt --model tiny --global-batch-size 64 --bf16"})
    EXPECT_THAT(text, HasSubstr(part));
}

TEST_F(AnswerTest, HasNoCostWithoutAPriceAndNoHoursWithoutTokens) {
  set_price(question_.cluster, "2");
  EXPECT_THAT(say(), Not(HasSubstr("cost")));
  question_.tokens = 1e9;
  EXPECT_THAT(say(), HasSubstr("cost"));
  for (GpuGroup& group : question_.cluster.groups) group.price = 0;
  EXPECT_THAT(say(), Not(HasSubstr("cost")));
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
  EXPECT_THAT(say(), HasSubstr("is legal: tp 3 x pp 1 does not divide 4 ranks"));
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

TEST_F(AnswerTest, HasTheSameMpirunLineInJson) {
  const Answer found = answer(*task_, question_);
  const Json json = to_json(*task_, question_, found);
  std::vector<std::string> words;
  for (const Json& word : std::get<Json::Array>(json.find("command")->value))
    words.push_back(std::get<std::string>(word.value));
  EXPECT_THAT(words, ElementsAreArray(launch_words(*task_, question_, found.chosen().layout)));
  EXPECT_THAT(words, Contains("train_gpt"));
}

TEST(Parts, AddUpToTheStepAndAreSorted) {
  StepTime time;
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
  need.activations = 8192;
  need.products = 100;
  Index sum = 0;
  for (const auto& [name, bytes] : classes_of(need)) sum += bytes;
  EXPECT_EQ(sum, need.device());
}

}  // namespace
}  // namespace trireme::planner
