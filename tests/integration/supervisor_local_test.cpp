// trireme run with snapshots in memory and copies of them on a local disk, durable steps far apart:
// when memory is lost as well, as by a reboot, the run resumes from the disk with the same bits. A
// slow disk delays no stop.
#include <csignal>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/observe/page_mapping.h"
#include "runtime/observe/page_reader.h"
#include "runtime/store/tiers/slots.h"
#include "tests/support/supervised_run.h"

namespace trireme::test {
namespace {

using testing::HasSubstr;
using testing::Not;

class SupervisedLocal : public SupervisedRun {
 protected:
  SupervisedLocal() {
    save_interval_ = 100000;
    fs::create_directory(disk_);
  }
  std::string options() const {
    return "--save-memory-interval 2 --save-local-interval 4 --save-local " + disk_;
  }
  std::string key() const { return supervisor::key_of(paths(), history().run); }
  std::string memory() const { return store::snapshot_directory(key()); }
  std::string copies() const { return store::local_snapshot_directory(disk_, key()); }
  std::string status() const { return shell(command + " status " + run_directory()).output; }
  /// Until a step is complete on the disk.
  void wait_for_copies() {
    ASSERT_TRUE(wait_until([&] {
      return !job_->running() || status().find(", on local disks step ") != std::string::npos;
    })) << output();
    ASSERT_TRUE(job_->running()) << output();
  }
  /// All processes at once, and what they had in memory.
  void reboot() {
    job_->send(SIGKILL);
    EXPECT_EQ(wait(), 128 + SIGKILL);
    ASSERT_TRUE(wait_until([&] { return processes_with(run_directory()) == 0; }));
    store::remove_snapshots(memory());
  }

  const std::string disk_ = folder_ / "disk";
};

TEST_F(SupervisedLocal, ResumesFromTheDiskWithTheSameBitsWhenMemoryIsLost) {
  start("", trainer, options());
  wait_for_copies();
  if (HasFatalFailure()) return;
  reboot();
  if (HasFatalFailure()) return;
  const Index done = step();
  EXPECT_EQ(durable(), 0);
  last_step_ = done + 20;
  start("", trainer, options());
  ASSERT_TRUE(wait_until([&] { return step() > done || !job_->running(); })) << output();
  EXPECT_THAT(status(), HasSubstr(" on local disks"));
  EXPECT_EQ(wait(), 0) << output();
  const supervisor::Started started = history().attempts.back().started;
  EXPECT_EQ(started.tier, "local");
  EXPECT_GE(started.step, 4);
  EXPECT_EQ(started.step % 2, 0);  // a slow disk delays a copy to a later snapshot
  EXPECT_LE(started.step, done);
  EXPECT_THAT(read_text(paths().attempt(2) + "/output.log"),
              HasSubstr(str("loaded step ", started.step, " from local disks of the nodes")));
  EXPECT_THAT(shell(command + " report " + run_directory()).output,
              HasSubstr("1 attempt started from a snapshot on disks of the hosts"));
  EXPECT_TRUE(fs::is_empty(disk_));  // all was durable
  expect_nothing_left();
  expect_the_bits_of_an_undisturbed_run();
}

/// Of a rank, by the trace of io_shim.
int writes_of(int rank, const std::string& trace) {
  std::istringstream lines(trace);
  int found = 0;
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(str(rank, " ")) && line.find(" pwrite ") != std::string::npos) ++found;
  return found;
}

TEST_F(SupervisedLocal, HoldsNoSaveOfAStopUpAndIsGivenUp) {
  constexpr int slow = 1;  // the rank whose disk takes nothing until the job is saved
  const std::string hold = folder_.write("hold", ""), trace = folder_ / "trace";
  variables_ = str("TRIREME_SHIM_ROOT=", disk_, " TRIREME_SHIM_FAULT=hold=", hold,
                   " TRIREME_SHIM_RANK=", slow, " TRIREME_SHIM_TRACE=", trace,
                   " LD_PRELOAD=" TRIREME_IO_SHIM);
  start("", trainer, options());
  ASSERT_TRUE(wait_until([&] { return step() >= 8 || !job_->running(); })) << output();
  job_->send(SIGTERM);
  const observe::PageReader reader(
      observe::page_path(supervisor::find_private_directories(paths(), key(), 1).pages(), slow));
  int looks = 0;  // that have shown it in a row: the wait for the save may just be over
  const auto waits_for_its_copy = [&] {
    const observe::PageState page = reader.read();
    const bool waits = page.durable_step > 0 && page.waits_for == observe::WaitsFor::storage;
    looks = waits ? looks + 1 : 0;
    return looks == 10 || !job_->running();
  };
  ASSERT_TRUE(wait_until(waits_for_its_copy)) << output();
  EXPECT_EQ(durable(), step());
  ASSERT_TRUE(job_->running()) << output();
  fs::remove(hold);
  EXPECT_EQ(wait(), 75) << output();
  EXPECT_EQ(writes_of(slow, read_text(trace)), 0);
  EXPECT_GT(writes_of(0, read_text(trace)), 0);
  EXPECT_TRUE(fs::is_empty(disk_));
  EXPECT_THAT(read_text(paths().attempt(1) + "/output.log"), Not(HasSubstr("without a copy")));
  expect_nothing_left();
}

TEST_F(SupervisedLocal, IsRemovedByHand) {
  start("", trainer, options());
  wait_for_copies();
  if (HasFatalFailure()) return;
  reboot();
  if (HasFatalFailure()) return;
  EXPECT_TRUE(fs::exists(copies()));
  const std::string clean = command + " nodes clean " + run_directory();
  EXPECT_THAT(shell(clean).output, HasSubstr("removed " + copies()));
  EXPECT_TRUE(fs::is_empty(disk_));
  EXPECT_THAT(shell(clean).output, Not(HasSubstr("removed")));
  last_step_ = 6;
  start("", trainer, options());
  EXPECT_EQ(wait(), 0) << output();
  EXPECT_EQ(history().attempts.back().started.tier, "");
  expect_nothing_left();
}

}  // namespace
}  // namespace trireme::test
