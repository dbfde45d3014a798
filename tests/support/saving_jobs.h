// SavingJobs: the fixture of tests whose jobs save every few steps into a directory that something
// happens to.
#pragma once

#include <string>

#include <gtest/gtest.h>

#include "runtime/store/steps.h"
#include "tests/support/checkpoint_jobs.h"
#include "tests/support/checkpoint_state.h"

namespace trireme::test {

inline const Layout four{"data 2 x tensor 2, ZeRO", 4,
                         "--tp 2 --micro-batch-size 2 --use-distributed-optimizer"};
inline const Layout two{"pipeline 2", 2, "--pp 2 --micro-batch-size 2"};

class SavingJobs : public testing::Test {
 protected:
  SavingJobs() : jobs_(small_gpt) {}

  /// Saves in `root` every 5 steps, 20 in all; metrics lie beside it, where no fault is.
  std::string saving(const std::string& root, const std::string& more = "",
                     const std::string& before = "", const Layout& layout = four) const {
    return jobs_.training(layout,
                          str("--train-iters 20 --save-interval 5 --save ", root, " --metrics ",
                              root, ".jsonl ", more),
                          before);
  }
  void expect_verified(const std::string& root) const {
    const Outcome verified = jobs_.run(CheckpointJobs::trireme("checkpoint verify " + root));
    EXPECT_EQ(verified.exit_code, 0) << verified.output;
  }
  static std::string directory(const std::string& root, Index step) {
    return root + "/" + step_name(step);
  }

  CheckpointJobs jobs_;
};

}  // namespace trireme::test
