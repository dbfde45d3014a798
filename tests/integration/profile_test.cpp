// train_gpt --profile-ops, as a user starts it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/checkpoint_jobs.h"

namespace trireme::test {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class ProfileOps : public testing::Test {
 protected:
  /// One profiled step of three, on so many stages.
  json profile(int stages) {
    const std::string file = jobs_ / str("profile", stages, ".json");
    output_ =
        jobs_.succeed(jobs_.training({"", stages, str("--micro-batch-size 2 --pp ", stages)},
                                     "--train-iters 3 --profile-step 2 --profile-ops " + file));
    return json::parse(read_text(file));
  }
  static json row(const json& profile, const std::string& op, const std::string& phase) {
    for (const json& row : profile["rows"])
      if (row["op"] == op && row["phase"] == phase) return row;
    throw Error("no row " + op + " " + phase);
  }
  CheckpointJobs jobs_{tiny_gpt};
  std::string output_;
};

TEST_F(ProfileOps, OfOneRankIsOneObjectAndATable) {
  const json found = profile(1);
  EXPECT_EQ(found["model"], "tiny");
  EXPECT_EQ(found["micro_batch"], 2);
  EXPECT_EQ(found["sequence"], 16);
  EXPECT_EQ(found["micro_batches"], 4);
  EXPECT_EQ(found["step"], 2);
  const json attention = row(found, "causal_attention", "backward");
  EXPECT_EQ(attention["calls"], 2 * 4);
  EXPECT_EQ(attention["names"].size(), 2u);
  EXPECT_GT(attention["ms"], 0);
  EXPECT_EQ(attention["flops"].get<double>(),
            2.5 * row(found, "causal_attention", "forward")["flops"].get<double>());
  EXPECT_EQ(row(found, "gradient_norm", "step")["calls"], 1);
  EXPECT_THAT(output_, HasSubstr("profile of step 2, stage 0 of 1, CPU"));
  EXPECT_THAT(output_, HasSubstr("the step before, without events"));
  EXPECT_THAT(output_, HasSubstr("limits: copies"));
}

TEST_F(ProfileOps, OfAPipelineHasEveryStage) {
  const json found = profile(2);
  EXPECT_EQ(found["model"], "tiny");
  ASSERT_EQ(found["stages"].size(), 2u);
  for (const json& stage : found["stages"]) EXPECT_EQ(row(stage, "linear", "forward")["calls"], 8);
  EXPECT_GT(row(found["stages"][0], "exchange", "step")["bytes"], 0);
  EXPECT_THAT(output_, HasSubstr("profile of step 2, stage 1 of 2, CPU"));
}

TEST_F(ProfileOps, IsRefusedBeforeTrainingWhereItsFileCannotBe) {
  const Outcome outcome = jobs_.run(jobs_.training(
      {"", 1, ""}, "--train-iters 3 --profile-ops " + (jobs_ / "gone") + "/profile.json"));
  EXPECT_EQ(outcome.exit_code, 64);
  EXPECT_THAT(outcome.output, HasSubstr("there is no directory " + (jobs_ / "gone")));
}

TEST_F(ProfileOps, SaysThatItsStepIsDoneAlready) {
  const std::string save = "--save " + (jobs_ / "save") + " ";
  jobs_.succeed(jobs_.training({"", 1, ""}, save + "--train-iters 2"));
  const std::string again = jobs_.succeed(jobs_.training(
      {"", 1, ""}, save + "--load " + (jobs_ / "save") +
                       " --train-iters 4 --profile-step 2 --profile-ops " + (jobs_ / "late.json")));
  EXPECT_THAT(again, HasSubstr("nothing is profiled: step 2 of --profile-step is done already"));
  EXPECT_EQ(read_text(jobs_ / "late.json"), "");
}

}  // namespace
}  // namespace trireme::test
