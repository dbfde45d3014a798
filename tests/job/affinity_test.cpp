// Cores of ranks that their launcher has bound: here the test is the launcher, and its child the
// rank.
#include <functional>

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/job/device_choice.h"

namespace trireme {
namespace {

/// Whether `check` is true in a child that is bound to the first of this process's cores.
bool holds_on_one_core(const std::function<bool()>& check) {
  const pid_t child = fork();
  if (child == 0) {
    cpu_set_t all, first;
    bool good = sched_getaffinity(0, sizeof all, &all) == 0;
    CPU_ZERO(&first);
    for (int core = 0; good && CPU_COUNT(&first) == 0; ++core)
      if (CPU_ISSET(core, &all)) CPU_SET(core, &first);
    good = good && sched_setaffinity(0, sizeof first, &first) == 0 && check();
    _exit(good ? 0 : 1);
  }
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
         WEXITSTATUS(status) == 0;
}

TEST(Affinity, BoundRanksTakeTheCoresOfTheirLauncher) {
  const int launchers = cores_of_this_process();
  EXPECT_TRUE(holds_on_one_core([&] {
    const std::string said = widen_affinity(2, "two threads");
    const std::string expected =
        launchers > 1 ? "two threads: ranks were bound to 1 core each; now they may use "
                      : "two threads: this rank may use 1 core only";
    return said.starts_with(expected) && cores_of_this_process() == launchers;
  }));
}

TEST(Affinity, RanksWithEnoughCoresStayWhereTheyAre) {
  EXPECT_TRUE(holds_on_one_core(
      [] { return widen_affinity(1, "one thread").empty() && cores_of_this_process() == 1; }));
}

}  // namespace
}  // namespace trireme
