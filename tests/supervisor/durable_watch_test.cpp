// The newest durable step, as the supervisor follows it.
#include <atomic>
#include <chrono>
#include <filesystem>
#include <thread>

#include <gtest/gtest.h>

#include "launch/supervisor/machine/progress.h"
#include "launch/supervisor/machine/run_directory.h"
#include "tests/support/scratch_directory.h"
#include "tests/support/toy_checkpoint.h"

namespace trireme::supervisor::test {
namespace {

namespace fs = std::filesystem;

class DurableSteps : public testing::Test {
 protected:
  void commit(Index step) const { trireme::test::commit_toy(run_, step, {}); }

  ScratchDirectory folder_;
  const std::string run_ = folder_ / "run";
  DurableWatch watch_{run_};
};

TEST_F(DurableSteps, AreSeenAsSoonAsTheDirectoryChanges) {
  EXPECT_EQ(watch_.newest(0), 0);
  commit(5);
  EXPECT_EQ(watch_.newest(0.1), 5);
  commit(10);
  fs::last_write_time(run_, fs::file_time_type::clock::now() + std::chrono::seconds(9));
  EXPECT_EQ(watch_.newest(0.2), 10);
}

TEST_F(DurableSteps, OfADirectoryWhoseDateIsThatOfBeforeAreSeenAfter2SecondsOrWhenAskedTo) {
  commit(5);
  const auto date = fs::last_write_time(run_);
  EXPECT_EQ(watch_.newest(0), 5);
  const auto commit_at_the_same_date = [&](Index step) {
    commit(step);
    fs::last_write_time(run_, date);
  };
  commit_at_the_same_date(10);
  EXPECT_EQ(watch_.newest(1.9), 5);
  EXPECT_EQ(watch_.newest(2.1), 10);
  commit_at_the_same_date(15);
  EXPECT_EQ(watch_.newest(2.2), 10);
  watch_.look_again();
  EXPECT_EQ(watch_.newest(2.3), 15);
}

TEST_F(DurableSteps, ThatAreDamagedAreNone) {
  commit(5);
  commit(10);
  fs::resize_file(run_ + "/" + step_name(10) + "/" + global_name, 7);
  EXPECT_EQ(watch_.newest(0), 5);
}

TEST_F(DurableSteps, AreThereWhileAJobSavesAndPrunes) {
  commit(1);
  std::atomic<bool> over{false};
  std::thread job([&] {
    for (Index step = 2; step <= 150; ++step) {
      commit(step);
      fs::rename(run_ + "/" + step_name(step - 1), run_ + "/.deleted");
      fs::remove_all(run_ + "/.deleted");
    }
    over = true;
  });
  Index looks = 0, without = 0;
  for (; !over; ++looks) without += durable_steps(run_, 1).empty() ? 1 : 0;
  job.join();
  EXPECT_EQ(without, 0) << "of " << looks;
}

}  // namespace
}  // namespace trireme::supervisor::test
