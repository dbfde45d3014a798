// What the kernel says of processes that it ended for lack of memory, in files like its own.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"

#include "launch/supervisor/machine/post_mortem.h"
#include "tests/support/scratch_directory.h"

namespace trireme::supervisor::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class OomKillsOf : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(folder_ / path).parent_path());
    folder_.write(path, text);
  }
  void count_machine(Index kills) {
    write("proc/vmstat", str("nr_free_pages 5\noom_kill ", kills, "\n"));
  }
  OomKills count() const {
    const std::string root = folder_ / "";
    return count_oom_kills(root.substr(0, root.size() - 1));
  }
  ScratchDirectory folder_;
};

TEST_F(OomKillsOf, AGroupOfVersion2AreCounted) {
  write("proc/self/cgroup", "0::/user/job\n");
  write("sys/fs/cgroup/user/job/memory.events", "low 0\noom 3\noom_kill 3\noom_group_kill 0\n");
  const OomKills before = count();
  EXPECT_EQ(before.of_group, 3);
  EXPECT_THAT(new_oom_kills(before, count()), IsEmpty());
  write("sys/fs/cgroup/user/job/memory.events", "low 0\noom 4\noom_kill 4\noom_group_kill 0\n");
  EXPECT_THAT(new_oom_kills(before, count()), HasSubstr("of the job for lack of memory (cgroup)"));
}

TEST_F(OomKillsOf, AGroupOfVersion1AreCounted) {
  write("proc/self/cgroup", "8:pids:/\n4:memory:/job\n0::/\n");
  write("sys/fs/cgroup/memory/job/memory.oom_control",
        "oom_kill_disable 0\nunder_oom 0\noom_kill 2");
  EXPECT_EQ(count().of_group, 2);
}

TEST_F(OomKillsOf, OtherGroupsDoNotCountWhereTheOwnIsKnown) {
  write("proc/self/cgroup", "0::/job\n");
  write("sys/fs/cgroup/job/memory.events", "oom_kill 0\n");
  count_machine(5);
  const OomKills before = count();
  count_machine(6);
  EXPECT_THAT(new_oom_kills(before, count()), IsEmpty());
}

TEST_F(OomKillsOf, TheMachineCountWhereThereIsNoGroup) {
  write("proc/self/cgroup", "0::/\n");
  count_machine(5);
  const OomKills before = count();
  EXPECT_EQ(before.of_machine, 5);
  count_machine(6);
  EXPECT_THAT(new_oom_kills(before, count()), HasSubstr("of this machine for lack of memory"));
}

TEST_F(OomKillsOf, AKernelThatSaysNothingAreNone) {
  EXPECT_FALSE(count().of_group);
  EXPECT_THAT(new_oom_kills(count(), count()), IsEmpty());
}

}  // namespace
}  // namespace trireme::supervisor::test
