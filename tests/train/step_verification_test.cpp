// --verify-step: a parameter is wrong for a few ops of the first computation of one step, as where
// a processor computes wrongly once. The rank is named; without a fault nothing changes.
#include <array>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/store/steps.h"
#include "tests/support/checkpoint_state.h"
#include "tests/support/scratch_directory.h"
#include "tests/train/disturbed_fit.h"

namespace trireme::train {
namespace {

using test::committed_steps;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr Index verified_batch = 8;

class VerifiedSteps : public testing::Test {
 protected:
  VerifiedSteps() {
    options_.train_iters = options_.learning_rate.decay_iters = 8;
    options_.global_batch_size = verified_batch;
    options_.check_replicas = 0;
    options_.verify_step = 3;
    options_.checkpoint.save_interval = 1;
    options_.checkpoint.async_save = false;
    options_.checkpoint.save = folder_ / "run";
  }
  /// Returns the message of rank 0. On `rank` a parameter has another exponent between the third
  /// and the tenth op of step `step`.
  std::string fit(const MeshShape& shape, int rank = -1, Index step = 0) {
    int asked = 0;
    const auto flip_twice = [&](DisturbedRank& at) {
      if (at.number != rank || at.trainer->steps_done() + 1 != step) return;
      ++asked;
      if (asked == 4 || asked == 11) at.mesh->flip(a_sign_byte_, 7);
    };
    return disturbed_fit(shape, options_, {.between_ops = flip_twice});
  }

  /// In step 6 a sum of gradients is wrong on ranks from `first`: each time that it is computed, or
  /// once.
  std::string fit_with_wrong_sums(int first, bool each_time) {
    std::array<bool, 2> wrong{};
    const auto hooks = [&](DisturbedRank& rank) {
      test::FlipHooks all;
      all.after_sum = [&, each_time](Elements sum) {
        if (rank.number < first || rank.trainer == nullptr || rank.trainer->steps_done() + 1 != 6)
          return;
        if (!std::exchange(wrong[static_cast<std::size_t>(rank.number)], true) || each_time)
          static_cast<float*>(sum.data)[0] += 1;
      };
      return all;
    };
    return disturbed_fit({2, 1, 1}, options_, {.hooks = hooks});
  }

  ScratchDirectory folder_;
  Options options_;
  Index a_sign_byte_ = 3;  // of the first parameter
};

TEST_F(VerifiedSteps, NameTheRankWhoseGradientsDifferBeforeTheirSum) {
  const std::string message = fit({2, 1, 1}, 1, 6);
  EXPECT_THAT(message, HasSubstr("silent corruption: step 6, computed twice, has other bits the "
                                 "second time: rank 1 on "));
  EXPECT_THAT(message, HasSubstr(" computed other gradients of '"));
  EXPECT_THAT(message, HasSubstr("; the newest checkpoint is that of step 5"));
  EXPECT_THAT(committed_steps(options_.checkpoint.save), ElementsAre(5, 4, 3, 2, 1));
  EXPECT_THAT(folder_.read("run/replicas.jsonl"),
              HasSubstr("\"votes\":[],\"wrong\":[{\"attempt\":0,\"rank\":1,"));
  EXPECT_THAT(folder_.read("run/replicas.jsonl"), HasSubstr("\"clean\":3}\n"));
}

TEST_F(VerifiedSteps, AreRememberedByCheckpointsAndByTheJobThatResumes) {
  options_.train_iters = 5;
  EXPECT_EQ(fit({2, 1, 1}), "");
  const auto verified_step = [&](Index step) {
    return read_manifest(options_.checkpoint.save + "/" + step_name(step)).verified_step;
  };
  EXPECT_EQ(verified_step(2), -1);
  EXPECT_EQ(verified_step(3), 3);
  EXPECT_EQ(verified_step(5), 3);
  options_.train_iters = 8;
  options_.verify_step = 8;
  options_.checkpoint.load = options_.checkpoint.save;
  EXPECT_THAT(fit({2, 1, 1}, 1, 8), HasSubstr("step 8, computed twice"));
  EXPECT_EQ(verified_step(7), 3) << "by the job before";
  EXPECT_THAT(folder_.read("run/replicas.jsonl"), HasSubstr("\"clean\":3}\n"));
}

TEST_F(VerifiedSteps, SeeNothingInStepsBetween) { EXPECT_EQ(fit({2, 1, 1}, 1, 5), ""); }

TEST_F(VerifiedSteps, AloneSeeWrongGradientsBeforeTheirSum) {
  options_.verify_step = 0;
  options_.check_replicas = 1;
  EXPECT_EQ(fit({2, 1, 1}, 1, 6), "") << "replicas get the same wrong sum";
}

TEST_F(VerifiedSteps, SeeASumThatIsWrongOnceAndBlameNoRank) {
  const std::string message = fit_with_wrong_sums(1, false);
  EXPECT_THAT(message, HasSubstr("step 6, computed twice, has other bits the second time: every "
                                 "rank computed the same gradients, and their sums over the ranks "
                                 "differ"));
  EXPECT_THAT(folder_.read("run/replicas.jsonl"), HasSubstr("\"wrong\":[]"));
}

TEST_F(VerifiedSteps, MissAFaultThatRepeatsWhichReplicasFindOnOneRank) {
  options_.check_replicas = 1;
  EXPECT_EQ(fit_with_wrong_sums(2, true), "");
  options_.checkpoint.save = folder_ / "all";
  EXPECT_EQ(fit_with_wrong_sums(0, true), "");
  EXPECT_NE(first_difference(test::read_checkpoint(folder_ / "run/step-000008"),
                             test::read_checkpoint(folder_ / "all/step-000008")),
            "");
  options_.checkpoint.save = folder_ / "one";
  EXPECT_THAT(fit_with_wrong_sums(1, true), HasSubstr("after step 6 the data replicas differ"));
}

TEST_F(VerifiedSteps, ChangeNoBitOnAnyLayout) {
  for (const bool sharded : {false, true})
    for (const bool bf16 : {false, true}) {
      options_.use_distributed_optimizer = sharded;
      options_.bf16 = bf16;
      const std::string name = str(sharded, bf16);
      for (const Index interval : {0, 1}) {
        options_.verify_step = interval;
        options_.checkpoint.save = folder_ / str(name, "-", interval);
        EXPECT_EQ(fit({2, 1, 2}), "");
      }
      EXPECT_EQ(first_difference(test::read_checkpoint(folder_ / (name + "-0/step-000008")),
                                 test::read_checkpoint(folder_ / (name + "-1/step-000008"))),
                "");
    }
}

}  // namespace
}  // namespace trireme::train
