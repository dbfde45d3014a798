// trireme verify: layouts that are right are proved, and one with a planted fault is seen, with the
// tensor that shows it.
#include <csignal>
#include <filesystem>
#include <string>

#include "tests/support/find_processes.h"
#include "tests/support/verified_layout.h"

namespace trireme::test {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class Verify : public VerifiedLayout {};

TEST_F(Verify, ProvesATensorAndPipelineLayout) {
  const Outcome outcome = verify(4, train_gpt_program + model() + "--tp 2 --pp 2");
  expect_proved(outcome);
  EXPECT_THAT(outcome.output,
              HasSubstr("pipeline 2 x data 1 x tensor 2 = 4 ranks, against one rank; "
                        "2 of 6 blocks, fp32, CPU"));
  EXPECT_THAT(outcome.output, HasSubstr("job 5 of 5: "));
}

TEST_F(Verify, ProvesALayoutInBf16WithShardedState) {
  expect_proved(verify(4, train_gpt_program + model() +
                              "--tp 2 --bf16 --use-distributed-optimizer --sequence-parallel "
                              "--bucket-size 5000"));
}

TEST_F(Verify, ProvesVirtualStagesOfAConfigurationFileWhoseRunItLeavesAlone) {
  const std::string config = folder_.write(
      "config.toml", str("pp = 2\nnum-virtual-stages-per-pipeline-rank = 2\nbf16 = true\n"
                         "train-iters = 1000\nsave = \"",
                         folder_ / "run", "\"\nload = \"", folder_ / "run",
                         "\"\nsave-interval = 1\nlr-warmup-iters = 500\n"));
  const Outcome outcome = verify(2, train_gpt_program + model() + "--config " + config);
  expect_proved(outcome);
  EXPECT_THAT(outcome.output, HasSubstr("2 ranks of 2 virtual stages"));
  EXPECT_THAT(outcome.output, HasSubstr("4 of 6 blocks, bf16"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run"));
}

TEST_F(Verify, ProvesAProgramOfItsOwnWithAllItsBlocks) {
  const Outcome outcome = verify(4, TRIREME_BIN_DIR "/mlp --tp 2 --pp 2");
  expect_proved(outcome);
  EXPECT_THAT(outcome.output, HasSubstr("all of the model"));
}

TEST_F(Verify, NamesTheNormWhoseGradientIsDoubled) {
  const nlohmann::json found =
      fault(2, "--fault doubled-norm --bucket-size 1000000000", "--depth 2");
  const nlohmann::json& first = found["first_difference"];
  EXPECT_EQ(first["tensor"], "block.1.mlp_norm.weight") << found;
  EXPECT_EQ(first["what"], "gradient of step 1");
  EXPECT_EQ(first["layer"], 1);
  EXPECT_EQ(first["rank"], 0);
  EXPECT_NEAR(first["apart"].get<double>(), 1, 1e-3);
}

/// The tensor that is named, with its layer.
std::string named(const nlohmann::json& report) {
  return report["first_difference"].value("tensor", "none: " + report.dump());
}

TEST_F(Verify, NamesTheTiedWeightThatIsCountedOnce) {
  const nlohmann::json found = fault(2, "--pp 2 --fault tie-once");
  EXPECT_EQ(named(found), "embedding.weight");
  EXPECT_EQ(found["checks"][2]["differing"], 1);  // of the gradients
}

TEST_F(Verify, NamesTheFirstTensorOfABucketThatIsNotSummed) {
  const std::string options = "--bucket-size 5000 --fault skipped-bucket --fault-sum ";
  EXPECT_EQ(named(fault(2, options + "1", "--depth 2")), "block.1.attention.output.bias");
  EXPECT_EQ(named(fault(2, options + "1 --bf16", "--depth 2")), "block.1.attention.output.bias");
}

TEST_F(Verify, NamesTheTensorsThatASumLeftOutOfBackwardReachesFirst) {
  const nlohmann::json found = fault(2, "--tp 2 --fault dropped-sum --fault-sum 6", "--depth 2");
  EXPECT_EQ(named(found), "block.1.mlp_norm.bias");
  EXPECT_TRUE(found["checks"][0]["worst"] == "step 2") << found;  // the loss of step 1 is right
}

TEST_F(Verify, SaysThatAFaultIsInTheForwardPass) {
  const Outcome outcome =
      verify(2, faulty + model() + "--tp 2 --fault dropped-sum --fault-sum 0", "--depth 2");
  EXPECT_EQ(outcome.exit_code, 66) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("the fault is in the forward pass"));
  EXPECT_THAT(outcome.output, HasSubstr("not proved: "));
}

TEST_F(Verify, SeesBitsThatAreOtherInASecondRun) {
  const nlohmann::json found = fault(2, "--fault noise");
  EXPECT_THAT(found["first_difference"]["what"].get<std::string>(), HasSubstr("second run"));
  // It is too small for any other comparison.
  EXPECT_EQ(found["checks"].size(), 5U) << found;
  for (const nlohmann::json& check : found["checks"])
    EXPECT_EQ(check["passed"], check["name"] != "bits of a repeated run") << check;
}

TEST_F(Verify, SeesAReplicaThatDiffersThoughNoFileShowsIt) {
  const nlohmann::json found = fault(2, "--fault one-replica");
  EXPECT_EQ(found["checks"].back()["name"], "replicas") << found;
  EXPECT_THAT(found["checks"].back()["text"].get<std::string>(), HasSubstr("silent corruption"));
}

TEST_F(Verify, SeesALayoutThatTrainsOnWrongAfterItHasLoaded) {
  const nlohmann::json found = fault(2, "--fault resumed-doubled");
  EXPECT_THAT(found["first_difference"]["what"].get<std::string>(),
              HasSubstr("one rank's checkpoint on the layout"));
}

TEST_F(Verify, RefusesWhatCannotBeTriedWithOneLineEach) {
  const std::string wrong = "--directory /nowhere --mpirun 'mpirun -np 2' --depht 2 -- no-program";
  const Outcome words = run_shell(trireme_command + "verify " + wrong, folder_ / "log");
  EXPECT_EQ(words.exit_code, 64) << words.output;
  for (const char* line : {"no-program: there is no such program\n", "--directory /nowhere: ",
                           "-np belongs into --ranks", "--ranks is missing", "--depht"})
    EXPECT_EQ(count(words.output, line), 1) << line << words.output;

  const std::pair<std::string, std::string> programs[] = {
      {train_gpt_program + model() + "--tp 5", "does not divide the 3 ranks"},
      {train_gpt_program + model() + "--use-checkpoint-args", "verify begins with new values"},
      {"echo", "the program does not answer --check-layout 3"},
  };
  for (const auto& [program, message] : programs) {
    const Outcome outcome = verify(3, program);
    EXPECT_EQ(outcome.exit_code, 64) << outcome.output;
    EXPECT_THAT(outcome.output, StartsWith("trireme verify: "));
    EXPECT_EQ(count(outcome.output, message), 1) << outcome.output;
  }
  const Outcome deep = verify(2, train_gpt_program + model(), "--depth 7");
  EXPECT_EQ(deep.exit_code, 64);
  EXPECT_THAT(deep.output, HasSubstr("--depth 7: the model has 6 blocks"));
}

TEST_F(Verify, RefusesAModelOfWhichOneRankCannotHoldAsMuch) {
  // No machine has the memory of blocks of 65536 channels.
  const Outcome outcome = verify(
      2, train_gpt_program + data() +
             "--num-layers 4 --hidden-size 65536 --num-attention-heads 64 --seq-length 32 --pp 2");
  EXPECT_EQ(outcome.exit_code, 64) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("one rank cannot train 2 blocks:\n"));
  EXPECT_THAT(outcome.output, HasSubstr("the plan needs"));
}

TEST_F(Verify, AJobThatFailsIsReportedWithWhatItSaid) {
  // The first step is not finished in no time.
  const Outcome outcome = verify(2, train_gpt_program + model(), "--limit 0.01");
  EXPECT_EQ(outcome.exit_code, 1) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("job 1, one rank, has not ended in 0.01 s (--limit)"));
}

TEST_F(Verify, ASignalEndsItsJobAndLeavesNothing) {
  BackgroundProcess process("exec " + line(2, "") + " -- " + train_gpt_program + model(),
                            folder_ / "log");
  ASSERT_TRUE(wait_until([&] { return count(process.output(), "job 2 of 5") == 1; }));
  process.send(SIGTERM);
  const Outcome outcome = process.wait();
  EXPECT_EQ(outcome.exit_code, 128 + SIGTERM) << outcome.output;
  EXPECT_THAT(outcome.output, HasSubstr("Terminated: nothing is proved"));
  EXPECT_TRUE(std::filesystem::is_empty(jobs()));
  EXPECT_TRUE(wait_until([&] { return processes_with(jobs()) == 0; }));
}

}  // namespace
}  // namespace trireme::test
