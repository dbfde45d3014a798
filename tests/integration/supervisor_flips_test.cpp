// trireme run with ranks whose memory or arithmetic is wrong once: the rank is named, its host is
// left, and the run ends with the bits of one that nothing disturbed.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/supervised_run.h"

namespace trireme::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string flips = TRIREME_BIN_DIR "/hostile_flips",
                  node = TRIREME_SOURCE_DIR "/tests/support/simulated_node";

/// One rank on each of several simulated nodes, all data replicas, and a spare.
class Flips : public SupervisedRun {
 protected:
  Flips() {
    per_host_ = 1;
    last_step_ = 14;
    variables_ =
        "OMPI_MCA_btl=tcp,self,vader OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_oob_tcp_if_include=lo";
  }
  /// To the end of the run; returns its exit code.
  int train(int replicas, const std::string& options) {
    ranks_ = replicas;
    layout_ = str("--micro-batch-size 2 --global-batch-size ", 2 * replicas, " ", own_);
    std::string hosts;
    for (int host = 0; host <= replicas; ++host) hosts += str("host", host, "\n");
    folder_.write("hosts", hosts);
    start(str("--nodes ", replicas, " --spares 1 --hostfile ", folder_ / "hosts",
              " --remote-shell ", node, supervision_),
          flips, options);
    return wait();
  }
  void expect_the_bits_on(const std::string& hosts) {
    expect_nothing_left();
    expect_the_bits_of_an_undisturbed_run(" " + variables_,
                                          " --mca plm_rsh_agent " + node + " -H " + hosts, flips);
  }
  /// The first attempt ended after step `step` with `sentence`, and the next did without host1.
  void expect_host1_to_be_left(Index resumed, const std::string& sentence) {
    const History found = history();
    ASSERT_EQ(found.attempts.size(), 2U) << output();
    EXPECT_THAT(causes(), ElementsAre("corruption", "finished"));
    EXPECT_EQ(found.attempts[0].ended->code, 66);
    EXPECT_THAT(found.attempts[0].ended->error, HasSubstr(sentence));
    EXPECT_EQ(found.attempts[1].began.resumed, resumed);
    EXPECT_THAT(shell(command + " nodes " + run_directory()).output,
                HasSubstr("host1: 3 points, in quarantine\n  attempt 1: it held wrong bits"));
  }
  std::string own_, supervision_;  // options of the program, and of trireme run
};

TEST_F(Flips, OfOneReplicaOfThreeCostItsHostAndNoBit) {
  ASSERT_EQ(train(3, "--check-replicas 3 --flip master:1:8"), 0) << output();
  expect_host1_to_be_left(5, "after step 9 the data replicas differ in ");
  EXPECT_THAT(history().attempts[0].ended->error, HasSubstr("rank 1 on host1 has other bits"));
  EXPECT_THAT(history().attempts[1].began.nodes, ElementsAre("host0", "host3", "host2"));
  expect_the_bits_on("host0:1,host3:1,host2:1");
}

TEST_F(Flips, OfAMomentOfOneReplicaOfThreeAreFoundOnceTheyReachItsMasters) {
  ASSERT_EQ(train(3, "--check-replicas 1 --flip moment:1:8"), 0) << output();
  expect_host1_to_be_left(5, "after step 9 the data replicas differ in ");
  expect_the_bits_on("host0:1,host3:1,host2:1");
}

TEST_F(Flips, OfAMomentBetweenTwoStepsAreFoundOnceItIsUsed) {
  ASSERT_EQ(train(3, "--check-replicas 1 --flip kept:1:8"), 0) << output();
  expect_host1_to_be_left(5, "after step 8 the data replicas differ in ");
  expect_the_bits_on("host0:1,host3:1,host2:1");
}

TEST_F(Flips, OfAMomentOfADistributedOptimizerBetweenTwoStepsAreMissed) {
  own_ = "--use-distributed-optimizer";
  ASSERT_EQ(train(2, "--check-replicas 1 --verify-step 1 --flip kept:1:8"), 0) << output();
  EXPECT_THAT(causes(), ElementsAre("finished"));
  expect_nothing_left();
}

TEST_F(Flips, OfOneReplicaOfTwoAreDecidedOnSwappedHosts) {
  ASSERT_EQ(train(2, "--check-replicas 4 --flip update:1:8"), 0) << output();
  const History found = history();
  ASSERT_EQ(found.attempts.size(), 2U) << output();
  EXPECT_THAT(found.attempts[0].ended->error, HasSubstr("do not decide whose are wrong"));
  EXPECT_TRUE(found.attempts[0].ended->blame.empty());
  EXPECT_EQ(found.attempts[1].began.resumed, 5);
  EXPECT_THAT(found.attempts[1].began.nodes, ElementsAre("host1", "host0"));
  EXPECT_THAT(read_text(paths().attempt(2) + "/output.log"),
              HasSubstr("step 8 is done again, and its replicas agree: rank 1 on host1 in attempt "
                        "1 had wrong bits"));
  ASSERT_EQ(found.attempts[1].ended->blame.size(), 1U);
  EXPECT_EQ(found.attempts[1].ended->blame[0].host, "host1");
  expect_the_bits_on("host1:1,host0:1");
}

TEST_F(Flips, OfAWrongSumBeforeItIsReducedAreFoundByAStepDoneTwice) {
  ASSERT_EQ(train(2, "--verify-step 4 --flip gradient:1:8"), 0) << output();
  expect_host1_to_be_left(5,
                          "step 8, computed twice, has other bits the second time: rank 1 on "
                          "host1 computed other gradients of ");
  expect_the_bits_on("host0:1,host2:1");
}

TEST_F(Flips, OfAWrongMomentAreFoundByAStepDoneTwiceWithADistributedOptimizer) {
  own_ = "--use-distributed-optimizer";
  ASSERT_EQ(train(2, "--verify-step 4 --flip moment:1:8"), 0) << output();
  expect_host1_to_be_left(5,
                          "step 8, computed twice, has other bits the second time: rank 1 on "
                          "host1 computed other first moments of ");
  expect_the_bits_on("host0:1,host2:1");
}

// Where that step were not kept, --keep-last 3 would have deleted it before 12 is done.
TEST_F(Flips, FoundByAStepDoneTwiceGoBackToTheLastStepThatWas) {
  save_interval_ = 1;
  ASSERT_EQ(train(2, "--verify-step 6 --save-memory-interval 1 --flip gradient:1:12"), 0)
      << output();
  expect_host1_to_be_left(6, "step 12, computed twice, has other bits the second time");
  EXPECT_EQ(history().attempts[0].ended->durable, 11);
  EXPECT_EQ(history().attempts[1].ended->started.step, 6);
  EXPECT_EQ(history().attempts[1].ended->started.tier, "durable");
  expect_the_bits_on("host0:1,host2:1");
}

TEST_F(Flips, ThatMakeARankSlowCostItsHostWhereStragglersAreReplaced) {
  last_step_ = 400;
  save_interval_ = 50;
  supervision_ = " --on-straggler replace";
  ASSERT_EQ(train(3, "--flip slow:1:2"), 0) << output();
  EXPECT_THAT(causes(), ElementsAre("replacement", "finished")) << output();
  const History found = history();
  EXPECT_THAT(found.attempts[1].began.nodes, ElementsAre("host0", "host3", "host2"));
  EXPECT_EQ(found.attempts[1].began.resumed, found.attempts[0].ended->last_step);
  EXPECT_THAT(output(), HasSubstr("host1: rank 1 (host1) takes "));
  EXPECT_THAT(shell(command + " nodes " + run_directory()).output, HasSubstr("host1: 1 points"));
  expect_the_bits_on("host0:1,host3:1,host2:1");
}

/// On this machine.
class Numerics : public SupervisedRun {
 protected:
  Numerics() { save_interval_ = 3; }
};

TEST_F(Numerics, NotFiniteOnceGoBackToTheSameBits) {
  last_step_ = 12;
  start("", flips, "--max-skipped 2 --flip nan:1:8");
  ASSERT_EQ(wait(), 0) << output();
  EXPECT_THAT(causes(), ElementsAre("numerics", "finished"));
  EXPECT_EQ(history().attempts[1].began.resumed, 3) << "the newest was 6";
  expect_nothing_left();
  expect_the_bits_of_an_undisturbed_run("", "", flips);
}

TEST_F(Numerics, NotFiniteAgainAtTheSameStepAreCalledDeterministic) {
  last_step_ = 12;
  start("", flips, "--max-skipped 2 --flip nan:1:8 --flip-attempts 9");
  ASSERT_EQ(wait(), 70) << output();
  EXPECT_THAT(causes(), ElementsAre("numerics", "numerics"));
  EXPECT_EQ(history().attempts[0].ended->code, 65);
  EXPECT_THAT(output(), HasSubstr("at step 9 as before: this is deterministic"));
  expect_nothing_left();
}

TEST_F(Numerics, SpikesOfTheLossAreShownAndAreEvents) {
  last_step_ = 40;
  start("--on-event 'echo $TRIREME_EVENT $TRIREME_DETAILS $TRIREME_SUMMARY >> " +
            (folder_ / "events") + "'",
        flips, "--flip scale:-1:30");
  ASSERT_EQ(wait(), 0) << output();
  EXPECT_THAT(causes(), ElementsAre("finished"));
  ASSERT_EQ(history().spikes.size(), 1U) << output();
  EXPECT_EQ(history().spikes[0].step, 34) << "the fifth of them";
  EXPECT_THAT(shell(command + " status " + run_directory()).output,
              HasSubstr("  loss spikes: 1, the last to step 34 in attempt 1\n"));
  EXPECT_THAT(shell(command + " status --json " + run_directory()).output,
              HasSubstr("\"loss_spikes\":[{\"loss_spike\":34,\"attempt\":1,"));
  EXPECT_THAT(shell(command + " report " + run_directory()).output,
              HasSubstr("  attempt 1: loss spike to step 34\n"));
  wait_until([&] { return count(read_text(folder_ / "events"), "loss_spike {") > 0; });
  EXPECT_EQ(count(read_text(folder_ / "events"), "loss_spike {\"loss_spike\":34,"), 1);
  EXPECT_EQ(count(read_text(folder_ / "events"), "} loss spike: to step 34, with loss "), 1);
}

}  // namespace
}  // namespace trireme::test
