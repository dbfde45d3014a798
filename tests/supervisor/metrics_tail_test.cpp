// Steps are read while a job writes them, cuts them off and writes them again.
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/supervisor/machine/progress.h"
#include "tests/support/scratch_directory.h"

namespace trireme::supervisor::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::string line(Index step) {
  return "{\"step\":" + std::to_string(step) + ",\"step_ms\":250.5,\"skipped\":false}\n";
}

class Tail : public testing::Test {
 protected:
  void append(const std::string& text) const {
    std::ofstream(path_, std::ios::binary | std::ios::app) << text;
  }
  static std::vector<Index> numbers(const std::vector<Step>& steps) {
    std::vector<Index> all;
    for (const Step& step : steps) all.push_back(step.number);
    return all;
  }
  ScratchDirectory folder_;
  const std::string path_ = folder_ / "metrics.jsonl";
};

TEST_F(Tail, ReadsWholeLinesOnceEach) {
  MetricsTail tail(path_);
  EXPECT_THAT(tail.read(), IsEmpty());
  append(line(1) + line(2).substr(0, 9));
  EXPECT_THAT(numbers(tail.read()), ElementsAre(1));
  EXPECT_THAT(tail.read(), IsEmpty());
  append(line(2).substr(9) + "no metrics\n" + line(3));
  const std::vector<Step> steps = tail.read();
  EXPECT_THAT(numbers(steps), ElementsAre(2, 3));
  EXPECT_EQ(steps[0].seconds, 0.2505);
}

TEST_F(Tail, SeesWhichStepCompletesALossSpike) {
  MetricsTail tail(path_);
  append(
      "{\"step\":1,\"loss\":2.5,\"step_ms\":10}\n"
      "{\"step\":2,\"loss\":7.5,\"step_ms\":10,\"loss_spike\":true}\n"
      "{\"step\":3,\"loss\":9,\"step_ms\":10,\"loss_spike\":7}\n");
  const std::vector<Step> steps = tail.read();
  ASSERT_EQ(steps.size(), 3U);
  EXPECT_FALSE(steps[0].spike);
  EXPECT_TRUE(steps[1].spike);
  EXPECT_EQ(steps[1].loss, 7.5);
  EXPECT_FALSE(steps[2].spike);
}

TEST_F(Tail, BeginsAtTheEndAndFollowsAJobThatGoesBack) {
  append(line(1) + line(2) + line(3));
  MetricsTail tail(path_);
  std::filesystem::resize_file(path_, line(1).size());
  EXPECT_THAT(tail.read(), IsEmpty());
  append(line(2));
  EXPECT_THAT(numbers(tail.read()), ElementsAre(2));
}

TEST_F(Tail, KnowsTheLastStepOfALongFile) {
  EXPECT_EQ(last_step_in(path_), 0);
  for (Index step = 1; step <= 500; ++step) append(line(step));
  EXPECT_EQ(last_step_in(path_), 500);
  append("{\"step\":9223372036854775807,\"step_ms\":1}\n");  // of no run
  EXPECT_EQ(last_step_in(path_), 500);
  append("{\"step\":501,");
  EXPECT_EQ(last_step_in(path_), 500);
}

TEST_F(Tail, KnowsTheUsualTimeOfAStepAndTheAgeOfTheLast) {
  EXPECT_EQ(step_rate_in(path_).usual_s, 0);
  for (const char* milliseconds : {"20", "9000", "21", "19", "20"})
    append(std::string("{\"step\":1,\"step_ms\":") + milliseconds + "}\n");
  EXPECT_EQ(step_rate_in(path_).usual_s, 0.02);
  const auto now = std::filesystem::file_time_type::clock::now();
  std::filesystem::last_write_time(path_, now - std::chrono::seconds(8));
  EXPECT_NEAR(step_rate_in(path_).age_s, 8, 4);
}

}  // namespace
}  // namespace trireme::supervisor::test
