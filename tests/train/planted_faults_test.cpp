// Faults that a rank plants in itself, and what a fit makes of them.
#include "runtime/train/chaos/planted_faults.h"

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/kernels/device.h"

#include "runtime/observe/status_page.h"
#include "tests/support/scratch_directory.h"

namespace trireme::train {
namespace {

using observe::InjectedFault;

rlim_t limit_of_files() {
  rlimit limit = {};
  getrlimit(RLIMIT_FSIZE, &limit);
  return limit.rlim_cur;
}

/// What a rank has that plants faults.
struct Rank {
  explicit Rank(Mesh& mesh, bool allowed = true)
      : context(options, mesh, *stream, log), planted(context, page, allowed) {}
  void ask(InjectedFault fault) {
    observe::inject(page.path(), {fault, 1});
    planted.at_op_boundary();
  }

  const ScratchDirectory folder{ScratchDirectory::in_memory()};
  observe::StatusPage page{folder.path(), 0, 1};
  const Options options;
  const std::unique_ptr<Device> device = open_cpu();
  const std::unique_ptr<Stream> stream = device->make_stream();
  const Log log{0, LogLevel::quiet};
  Context context;
  PlantedFaults planted;
};

template <class F>
void on_one_rank(F&& f) {
  run_on_threads(MeshShape(1, 1, 1), [&](Mesh& mesh) { f(mesh); });
}

TEST(PlantedFaults, AreIgnoredWhereTheyAreNotAllowed) {
  on_one_rank([](Mesh& mesh) {
    Rank rank(mesh, false);
    rank.ask(InjectedFault::hang);  // would never return
    EXPECT_NE(rank.page.take_injection(), 0U);
  });
}

TEST(PlantedFaults, AreAllowedByTheSupervisor) {
  ::unsetenv("TRIREME_ALLOW_CHAOS");
  EXPECT_FALSE(PlantedFaults::allowed());
  ::setenv("TRIREME_ALLOW_CHAOS", "0", 1);
  EXPECT_FALSE(PlantedFaults::allowed());
  ::setenv("TRIREME_ALLOW_CHAOS", "1", 1);
  EXPECT_TRUE(PlantedFaults::allowed());
  ::unsetenv("TRIREME_ALLOW_CHAOS");
}

TEST(PlantedFaults, FillTheDiskUntilASaveHasFailed) {
  const rlim_t before = limit_of_files();
  on_one_rank([&](Mesh& mesh) {
    Rank rank(mesh);
    rank.ask(InjectedFault::full_disk);
    EXPECT_EQ(limit_of_files(), 4096U);
    rank.planted.end_step(0);
    EXPECT_EQ(limit_of_files(), 4096U);
    rank.planted.end_step(1);
    EXPECT_EQ(limit_of_files(), before);
    rank.ask(InjectedFault::full_disk);
    EXPECT_EQ(limit_of_files(), 4096U);
  });
  EXPECT_EQ(limit_of_files(), before);  // also where the job ends before
}

TEST(PlantedFaultsDeathTest, EndTheProcessAsAGpuThatIsLostDoes) {
  on_one_rank([](Mesh& mesh) {
    Rank rank(mesh);
    EXPECT_EXIT(rank.ask(InjectedFault::xid), ::testing::ExitedWithCode(1),
                "rank 0. error: node .*, GPU 0: Xid 79: .*simulated by trireme chaos");
  });
}

}  // namespace
}  // namespace trireme::train
