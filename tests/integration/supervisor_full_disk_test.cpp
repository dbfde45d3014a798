// trireme run with copies of snapshots on a disk that is full: the run does without them until
// there is space.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/small_disk.h"
#include "tests/support/supervised_run.h"

namespace trireme::test {
namespace {

using testing::HasSubstr;

class SupervisedFullDisk : public SupervisedRun {
 protected:
  static constexpr Index megabyte = Index{1} << 20;

  SmallDisk disk_{folder_ / "disk", 16 * megabyte};
};

TEST_F(SupervisedFullDisk, CostsTheCopiesOnItOnly) {
  save_interval_ = 100000;
  disk_.fill_up_to(4096);
  start("", trainer,
        "--save-memory-interval 2 --save-local-interval 2 --save-local " + (folder_ / "disk"));
  const std::string log = paths().attempt(1) + "/output.log";
  const auto says = [&](const std::string& what) {
    return fs::exists(log) && read_text(log).find(what) != std::string::npos;
  };
  const auto status = [&] { return shell(command + " status " + run_directory()).output; };
  ASSERT_TRUE(wait_until([&] { return says("without a copy") || !job_->running(); })) << output();
  EXPECT_THAT(read_text(log), HasSubstr("--save-local " + (folder_ / "disk")));
  const Index before = step();
  ASSERT_TRUE(wait_until([&] { return step() > before + 4 || !job_->running(); })) << output();
  EXPECT_THAT(status(), HasSubstr(", in memory step "));
  EXPECT_EQ(status().find("on local disks"), std::string::npos);
  disk_.make_space();
  ASSERT_TRUE(wait_until([&] {
    return status().find(", on local disks step ") != std::string::npos || !job_->running();
  })) << output();
  finish();
  expect_nothing_left();
  expect_the_bits_of_an_undisturbed_run();
}

}  // namespace
}  // namespace trireme::test
