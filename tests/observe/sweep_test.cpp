// What an attempt ends and removes on a node before it begins: that of earlier attempts of its run,
// and nothing else.
#include "runtime/observe/remote/sweep.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/support/process.h"
#include "tests/support/scratch_directory.h"

namespace trireme::observe {
namespace {

namespace fs = std::filesystem;
using trireme::test::BackgroundProcess;
using trireme::test::wait_until;

class Sweeps : public testing::Test {
 protected:
  /// Returns once it has its environment.
  std::unique_ptr<BackgroundProcess> start(const std::string& variables) {
    const std::string begun = folder_ / ("begun" + std::to_string(count_++));
    auto process = std::make_unique<BackgroundProcess>(
        "exec env " + variables + " sh -c 'touch " + begun + "; sleep 1000; :'", folder_ / "log");
    EXPECT_TRUE(wait_until([&] { return fs::exists(begun); }));
    return process;
  }
  Sweep sweep(double longest_s = 60) {
    return end_earlier_attempts({key_, 3}, longest_s, [&] { ++waits_; });
  }
  ScratchDirectory folder_;
  // Another run of this test may sweep at the same time.
  const std::string key_ = "key-of-a-test-" + std::to_string(::getpid());
  int count_ = 0, waits_ = 0;
};

TEST_F(Sweeps, EndProcessesOfEarlierAttemptsOfTheRunOnly) {
  const auto earlier = start("TRIREME_RUN_KEY=" + key_ + " TRIREME_ATTEMPT=2");
  earlier->send(SIGSTOP);
  std::vector<std::unique_ptr<BackgroundProcess>> others;
  others.push_back(start("TRIREME_RUN_KEY=" + key_ + " TRIREME_ATTEMPT=3"));
  others.push_back(start("TRIREME_RUN_KEY=" + key_));
  others.push_back(start("TRIREME_RUN_KEY=" + key_ + "-2 TRIREME_ATTEMPT=2"));
  others.push_back(start("TRIREME_ATTEMPT=2"));
  const Sweep found = sweep();
  EXPECT_GE(found.ended, 1);  // the shell, and what it may have started
  EXPECT_EQ(found.left, 0);
  EXPECT_EQ(earlier->wait().exit_code, 128 + SIGKILL);
  for (const auto& other : others) EXPECT_TRUE(other->running());
  EXPECT_FALSE(sweep().any());
}

TEST_F(Sweeps, WithoutAKeyEndNothing) {
  const auto other = start("TRIREME_RUN_KEY= TRIREME_ATTEMPT=2");
  EXPECT_FALSE(end_earlier_attempts({"", 3}, 60, [] {}).any());
  EXPECT_TRUE(other->running());
}

TEST_F(Sweeps, RemoveDirectoriesOfEarlierAttemptsOfTheRunOnly) {
  const std::vector<std::string> others = {"trireme-k-a3", "trireme-k-a12", "trireme-k-snapshots",
                                           "trireme-k2-a1", "trireme-k-archive"};
  for (const std::string& name : others) fs::create_directories(folder_ / (name + "/pages"));
  for (const char* name : {"trireme-k-a1", "trireme-k-a2-shared"})
    fs::create_directories(folder_ / (std::string(name) + "/pages"));
  remove_earlier_directories({"k", 3}, folder_ / "trireme-k-a3");
  for (const std::string& name : others) EXPECT_TRUE(fs::exists(folder_ / name)) << name;
  EXPECT_FALSE(fs::exists(folder_ / "trireme-k-a1"));
  EXPECT_FALSE(fs::exists(folder_ / "trireme-k-a2-shared"));
  remove_earlier_directories({"k", 4}, "");  // where the directory is not known
  remove_earlier_directories({"", 4}, folder_ / "trireme-k-a3");
  EXPECT_EQ(folder_.files(), others.size());
}

TEST_F(Sweeps, WaitWhileMemoryIsGivenBack) {
  std::vector<std::uint64_t> values = {900, 500, 100, 100, 50};
  std::size_t reads = 0;
  const auto used = [&] { return std::optional(values[reads++]); };
  await_free_memory(used, 0, 60, [&] { ++waits_; });
  EXPECT_EQ(reads, 4U);
  EXPECT_EQ(waits_, 3);
  reads = 0;
  await_free_memory(used, 0, 0, [] {});
  EXPECT_EQ(reads, 1U);
  await_free_memory([] { return std::optional<std::uint64_t>(); }, 0, 60, [] {});
}

TEST_F(Sweeps, WaitUntilNoGpuGivesMemoryBackAnyMore) {
  const std::string state = folder_.write("gpus", "gpus 2\ngpu0.used 100\ngpu1.used 900\n");
  ::setenv("TRIREME_NVML", TRIREME_FAKE_NVML, 1);
  ::setenv("FAKE_NVML", state.c_str(), 1);
  std::ofstream out(state, std::ios::app);
  await_free_gpus(60, [&] {
    if (++waits_ < 3) out << "gpu1.used " << 900 - 100 * waits_ << std::endl;
  });
  EXPECT_EQ(waits_, 3);
  ::setenv("TRIREME_NVML", "/nowhere/libnvidia-ml.so.1", 1);
  await_free_gpus(60, [&] { ADD_FAILURE() << "there is no GPU"; });
  ::unsetenv("TRIREME_NVML");
  ::unsetenv("FAKE_NVML");
}

}  // namespace
}  // namespace trireme::observe
