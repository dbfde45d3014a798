// The machine of a supervisor, in a process of its own: it takes signals and adopts orphans.
#include "launch/supervisor/machine/machine.h"

#include <csignal>

#include <gtest/gtest.h>
#include <unistd.h>

#include "launch/supervisor/machine/processes.h"
#include "tests/support/scratch_directory.h"

namespace trireme::supervisor::test {
namespace {

TEST(Machine, StartsNoMoreCommandsOfEventsThanMayRunTogether) {
  const ScratchDirectory folder;
  EXPECT_EXIT(
      {
        MachineOptions options;
        options.on_event = "exec sleep 100";
        Machine machine(make_job({"true"}, folder / "run"), options);
        for (int event = 0; event < 40; ++event)
          machine.notify("event", "an event", Json::Object());
        const std::vector<pid_t> commands = children_outside({});
        for (const pid_t id : commands) ::kill(id, SIGKILL);
        ::_exit(static_cast<int>(commands.size()));
      },
      testing::ExitedWithCode(32), "");
}

}  // namespace
}  // namespace trireme::supervisor::test
