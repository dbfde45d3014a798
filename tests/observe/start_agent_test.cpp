// The process that a rank starts for its node: it has nothing of the rank.
#include <cstdlib>
#include <filesystem>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/observe/remote/page_agent.h"
#include "tests/support/message_of.h"
#include "tests/support/process.h"
#include "tests/support/scratch_directory.h"

namespace trireme::observe {
namespace {

using testing::HasSubstr;
using testing::Not;
using trireme::test::wait_until;
namespace fs = std::filesystem;

TEST(StartAgent, GivesItNoFileAndNoVariableOfTheRank) {
  const ScratchDirectory folder;
  const std::string program = folder.write("program",
                                           "#!/bin/sh\n"
                                           "{ ls -l /proc/$$/fd; env; } > $2/said.new\n"
                                           "mv $2/said.new $2/said\n");
  fs::permissions(program, fs::perms::owner_all);
  const std::string held = folder.write("held", "");
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  constexpr int high = 5000;
  const rlimit before = limit;
  limit.rlim_cur = std::max<rlim_t>(limit.rlim_cur, high + 1);
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) GTEST_SKIP() << "the limit of files is low";
  const int file = ::open(held.c_str(), O_RDONLY);
  const int same = ::fcntl(file, F_DUPFD, high);
  ASSERT_GE(same, high);
  ::setenv("OMPI_COMM_WORLD_RANK", "0", 1);
  start_agent(program, folder.path());
  ::unsetenv("OMPI_COMM_WORLD_RANK");
  ::close(same);
  ::close(file);
  ::setrlimit(RLIMIT_NOFILE, &before);
  ASSERT_TRUE(wait_until([&] { return fs::exists(folder / "said"); }));
  const std::string said = folder.read("said");
  EXPECT_THAT(said, HasSubstr("0 -> /dev/null"));
  EXPECT_THAT(said, Not(HasSubstr(held)));
  EXPECT_THAT(said, Not(HasSubstr("OMPI_COMM_WORLD_RANK")));
}

TEST(StartAgent, RefusesWhatIsNoProgram) {
  EXPECT_THAT(trireme::message_of([] { start_agent("/no/program", "/"); }),
              HasSubstr("/no/program is no program"));
}

}  // namespace
}  // namespace trireme::observe
