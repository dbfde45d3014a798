// Free memory of a host, read from trees of files as systems and containers have them.
#include <filesystem>

#include <gtest/gtest.h>

#include "runtime/core/process/this_machine.h"
#include "tests/support/scratch_directory.h"

namespace trireme {
namespace {

/// A host with 1000 KiB available.
class FreeMemory : public ::testing::Test {
 protected:
  FreeMemory() {
    file("proc/meminfo", "MemTotal:  9000 kB\nMemFree: 5 kB\nMemAvailable:  1000 kB\n");
  }
  void file(const std::string& path, const std::string& content) {
    std::filesystem::create_directories(std::filesystem::path(root_ / path).parent_path());
    root_.write(path, content);
  }
  void group_2(const std::string& path, const std::string& limit, const std::string& usage) {
    file(path + "/memory.max", limit + "\n");
    file(path + "/memory.current", usage + "\n");
  }
  void group_1(const std::string& path, const std::string& limit, const std::string& usage) {
    file(path + "/memory.limit_in_bytes", limit + "\n");
    file(path + "/memory.usage_in_bytes", usage + "\n");
  }
  Index bytes() const { return free_memory(root_.path()); }
  static constexpr Index available = 1000 * 1024;

  const ScratchDirectory root_;
};

TEST_F(FreeMemory, IsWhatTheSystemHasWithoutGroups) { EXPECT_EQ(bytes(), available); }

TEST_F(FreeMemory, IsWhatTheSystemHasWhereNoGroupHasALimit) {
  file("proc/self/cgroup", "0::/a/b\n");
  group_2("sys/fs/cgroup/a/b", "max", "5000");
  EXPECT_EQ(bytes(), available);
}

TEST_F(FreeMemory, IsWhatTheGroupLeaves) {
  file("proc/self/cgroup", "0::/a/b\n");
  group_2("sys/fs/cgroup/a/b", "70000", "50000");
  EXPECT_EQ(bytes(), 20000);
}

TEST_F(FreeMemory, IsWhatTheTightestGroupOnTheWayUpLeaves) {
  file("proc/self/cgroup", "0::/a/b/c\n");
  group_2("sys/fs/cgroup/a/b/c", "max", "100");
  group_2("sys/fs/cgroup/a/b", "70000", "50000");
  group_2("sys/fs/cgroup/a", "90000", "80000");
  group_2("sys/fs/cgroup/other", "10", "10");
  EXPECT_EQ(bytes(), 10000);
}

TEST_F(FreeMemory, OfAContainerIsAtTheMountPointWhateverItsGroupIsCalledOutside) {
  file("proc/self/cgroup", "0::/../docker-1.scope\n");
  group_2("sys/fs/cgroup", "70000", "50000");
  EXPECT_EQ(bytes(), 20000);
}

TEST_F(FreeMemory, HasWhatOnlyCachesFiles) {
  file("proc/self/cgroup", "0::/a\n");
  group_2("sys/fs/cgroup/a", "70000", "50000");
  file("sys/fs/cgroup/a/memory.stat",
       "anon 9\nfile 30000\ninactive_file 3000\nactive_file 400\nshmem 5\n");
  EXPECT_EQ(bytes(), 23400);
}

TEST_F(FreeMemory, IsNeverLessThanNothing) {
  file("proc/self/cgroup", "0::/a\n");
  group_2("sys/fs/cgroup/a", "70000", "70001");
  EXPECT_EQ(bytes(), 0);
}

TEST_F(FreeMemory, IsWhatAGroupOfVersion1Leaves) {
  file("proc/self/cgroup", "5:cpuset:/x\n4:cpu,memory:/job/task\n0::/\n");
  group_1("sys/fs/cgroup/memory/job/task", "9223372036854771712", "50000");
  group_1("sys/fs/cgroup/memory/job", "90000", "60000");
  file("sys/fs/cgroup/memory/job/memory.stat",
       "inactive_file 1\ntotal_inactive_file 2000\ntotal_active_file 300\n");
  group_1("sys/fs/cgroup/memory", "9223372036854771712", "95000");
  EXPECT_EQ(bytes(), 32300);
}

TEST_F(FreeMemory, IsNotThatOfAnotherControllersGroup) {
  file("proc/self/cgroup", "5:cpuset:/job\n4:memory:/\n");
  group_1("sys/fs/cgroup/memory/job", "10", "0");
  EXPECT_EQ(bytes(), available);
}

TEST(FreeMemoryOfThisHost, IsPositive) { EXPECT_GT(free_memory(), 1 << 20); }

}  // namespace
}  // namespace trireme
