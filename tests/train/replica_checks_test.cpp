// --check-replicas: one bit of one data replica is flipped. The rank is named, nothing wrong is
// saved, and the job that goes back ends with the bits of one that nothing disturbed.
#include <array>
#include <filesystem>
#include <span>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/core/process/this_machine.h"
#include "tests/support/checkpoint_state.h"
#include "tests/support/scratch_directory.h"
#include "tests/train/disturbed_fit.h"

namespace trireme::train {
namespace {

using test::committed_steps;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr Index batch = 12;
constexpr Index a_mantissa_byte = 22;  // of the sixth parameter

/// The bit that is flipped on `rank` in step `step`: before it, or after its last use there.
struct Flip {
  int rank = -1;
  Index step = 0;
  bool after_use = false;
};

class ReplicaChecksOfFit : public testing::Test {
 protected:
  ReplicaChecksOfFit() {
    options_.train_iters = options_.learning_rate.decay_iters = 12;
    options_.global_batch_size = batch;
    options_.check_replicas = 3;
    options_.bucket_size = 20;  // several buckets
    options_.checkpoint.save_interval = 4;
    options_.checkpoint.async_save = false;
    in("run");
  }
  void in(const std::string& name) {
    options_.checkpoint.save = options_.checkpoint.load = folder_ / name;
  }
  std::string root() const { return options_.checkpoint.save; }
  std::string file() const { return folder_.read("run/replicas.jsonl"); }

  std::string fit(const MeshShape& shape, Flip flip = {}) {
    bool flipped = flip.after_use;
    const auto before_sample = [&](DisturbedRank& rank, Index sample) {
      if (rank.number == flip.rank && sample / batch + 1 == flip.step &&
          !std::exchange(flipped, true))
        rank.mesh->flip(a_mantissa_byte, 5);
    };
    const auto hooks = [&](DisturbedRank& rank) { return hooks_of(rank, flip); };
    return disturbed_fit(shape, options_, {.hooks = hooks, .before_sample = before_sample});
  }
  test::FlipHooks hooks_of(DisturbedRank& rank, Flip flip) {
    test::FlipHooks hooks;
    if (rank.number == gathers_of_)
      hooks.after_gather = [](Elements out, Index) {
        if (out.dtype != DType::i64) static_cast<std::byte*>(out.data)[1] ^= std::byte{4};
      };
    if (rank.number == 0 && flip.rank < 0) hooks.before_sum = [this](Index n) { sums_ = n + 1; };
    if (rank.number == flip.rank && flip.after_use)  // the step's last sum of gradients begins
      hooks.before_sum = [&rank, last = flip.step * sums_ / options_.train_iters - 1](Index n) {
        if (n == last) rank.mesh->flip(a_mantissa_byte, 5);
      };
    return hooks;
  }
  /// The last step of this run is that of one that nothing disturbed.
  void expect_the_bits_of_a_clean_run(const MeshShape& shape) {
    const std::string mine = root();
    in("clean");
    EXPECT_EQ(fit(shape), "");
    const std::string last = "/step-000012";
    EXPECT_EQ(
        first_difference(test::read_checkpoint(mine + last), test::read_checkpoint(root() + last)),
        "");
  }

  ScratchDirectory folder_;
  Options options_;
  int gathers_of_ = -1;  // the rank whose gathers are damaged
  Index sums_ = 0;       // of gradients of a rank, in all steps of a run without a flip
};

struct Case {
  const char* name;
  MeshShape shape;
  bool bf16;
  int rank;
};
void PrintTo(const Case& each, std::ostream* out) { *out << each.name; }

class OfThree : public ReplicaChecksOfFit, public testing::WithParamInterface<Case> {};

TEST_P(OfThree, OneRankIsNamedAndTheRunGoesBackToTheSameBits) {
  const Case& c = GetParam();
  options_.bf16 = c.bf16;
  const std::string message = fit(c.shape, {c.rank, 5});
  EXPECT_THAT(message, HasSubstr("silent corruption: after step 6 the data replicas differ in '"));
  EXPECT_THAT(message, HasSubstr(str("): rank ", c.rank, " on ")));
  EXPECT_THAT(message, HasSubstr(" has other bits than the others; the newest checkpoint is that "
                                 "of step 4"));
  EXPECT_THAT(committed_steps(root()), ElementsAre(4));
  EXPECT_THAT(file(), HasSubstr(str("\"wrong\":[{\"attempt\":0,\"rank\":", c.rank, ",\"host\"")));
  EXPECT_EQ(fit(c.shape), "");
  expect_the_bits_of_a_clean_run(c.shape);
}

INSTANTIATE_TEST_SUITE_P(Replicas, OfThree,
                         testing::Values(Case{"fp32", MeshShape(3, 1, 1), false, 1},
                                         Case{"bf16", MeshShape(3, 1, 1), true, 0},
                                         Case{"tp2", MeshShape(3, 1, 2), false, 5},
                                         Case{"pp2", MeshShape(3, 2, 1), false, 4}),
                         [](const auto& each) { return each.param.name; });

TEST_F(ReplicaChecksOfFit, NamesTheRankOfThreeThatReceivedOtherBitsWithADistributedOptimizer) {
  options_.use_distributed_optimizer = true;
  for (const bool bf16 : {false, true}) {
    options_.bf16 = bf16;
    in(bf16 ? "bf16" : "fp32");
    gathers_of_ = 2;
    const std::string message = fit({3, 1, 1});
    EXPECT_THAT(message, HasSubstr("after step 3 the data replicas differ"));
    EXPECT_THAT(message, HasSubstr("): rank 2 on "));
    EXPECT_THAT(message, HasSubstr("this job has no checkpoint"));
  }
}

TEST_F(ReplicaChecksOfFit, OfTwoLeavesTheDecisionToTheStepDoneAgain) {
  const MeshShape two(2, 1, 1);
  in("counted");
  EXPECT_EQ(fit(two), "");
  in("run");
  const std::string message = fit(two, {1, 6, true});
  EXPECT_THAT(message, HasSubstr("hold different bits, and the replicas do not decide whose are "
                                 "wrong: the step done again from a checkpoint does"));
  EXPECT_THAT(file(), HasSubstr("\"wrong\":[]"));
  options_.check_replicas = 1000;  // and yet step 6 is compared
  EXPECT_EQ(fit(two), "");
  EXPECT_THAT(file(), HasSubstr("\"wrong\":[{\"attempt\":0,\"rank\":1,\"host\":\"" + host_name() +
                                "\"}]}"));
  expect_the_bits_of_a_clean_run(two);
}

TEST_F(ReplicaChecksOfFit, OfTwoBlamesNoRankWhereTheGradientsHaveSpreadTheWrongBits) {
  const MeshShape two(2, 1, 1);
  EXPECT_THAT(fit(two, {1, 5}), HasSubstr("after step 6 "));
  EXPECT_EQ(fit(two), "");
  EXPECT_THAT(file(), Not(HasSubstr("\"wrong\":[{")));
  expect_the_bits_of_a_clean_run(two);
}

TEST_F(ReplicaChecksOfFit, ComparesBeforeEverySave) {
  options_.check_replicas = 1000;
  EXPECT_THAT(fit({3, 1, 1}, {2, 6}), HasSubstr("after step 8 the data replicas differ"));
  EXPECT_THAT(committed_steps(root()), ElementsAre(4));
}

TEST_F(ReplicaChecksOfFit, MissesAMasterOfADistributedOptimizerThatChangesBetweenSteps) {
  const MeshShape three(3, 1, 1);
  options_.use_distributed_optimizer = true;
  options_.verify_step = 1;
  EXPECT_EQ(fit(three, {0, 5}), "") << "of the slice of rank 0, which all receive";
  const std::string last = "/step-000012", mine = root();
  in("clean");
  EXPECT_EQ(fit(three), "");
  EXPECT_NE(
      first_difference(test::read_checkpoint(mine + last), test::read_checkpoint(root() + last)),
      "");
}

TEST_F(ReplicaChecksOfFit, MissesAComputeCopyThatChangesWhichTheUpdateWritesAnew) {
  const MeshShape three(3, 1, 1);
  options_.bf16 = true;
  options_.check_replicas = 1;
  bool flipped = false;
  const auto before_sample = [&](DisturbedRank& rank, Index sample) {
    if (rank.number != 1 || sample / batch + 1 != 5 || std::exchange(flipped, true)) return;
    std::array<Bf16, 8> computed;
    for (std::size_t i = 0; i < computed.size(); ++i)
      computed[i] = to_bf16(rank.mesh->parameters()[i]);
    const Index at = rank.mesh->find(std::as_bytes(std::span(computed)));
    ASSERT_GE(at, 0);
    rank.mesh->flip(at + 1, 7);  // the sign of the first
  };
  EXPECT_EQ(disturbed_fit(three, options_, {.before_sample = before_sample}), "");
  EXPECT_TRUE(flipped);
  const std::string last = "/step-000012", mine = root();
  in("clean");
  EXPECT_EQ(fit(three), "");
  EXPECT_NE(
      first_difference(test::read_checkpoint(mine + last), test::read_checkpoint(root() + last)),
      "");
}

TEST_F(ReplicaChecksOfFit, IsOffWithZero) {
  options_.check_replicas = 0;
  EXPECT_EQ(fit({3, 1, 1}, {2, 6}), "");
  EXPECT_THAT(committed_steps(root()), ElementsAre(12, 8, 4));
  EXPECT_FALSE(std::filesystem::exists(root() + "/replicas.jsonl"));
}

}  // namespace
}  // namespace trireme::train
