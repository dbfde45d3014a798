// What the kernel says about processes: running, stopped, ended and not yet waited for, gone.
#include <csignal>

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/core/process/processes.h"

namespace trireme {
namespace {

TEST(ProcessStat, IsReadWhateverTheNameOfTheProgram) {
  const auto stat = parse_process_stat(
      "71 (a) D (b) c) S 1 70 69 0 -1 4194304 100 0 0 0 5 6 0 0 20 0 1 0 12345 1000 10 0\n");
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->state, 'S');
  EXPECT_EQ(stat->parent, 1);
  EXPECT_EQ(stat->session, 69);
  EXPECT_EQ(stat->started_ticks, 12345);
}

TEST(ProcessStat, IsNothingWhereTheTextIsNoneOrEndsEarly) {
  EXPECT_FALSE(parse_process_stat(""));
  EXPECT_FALSE(parse_process_stat("71 (a) S 1 71"));
  EXPECT_FALSE(parse_process_stat("71 (a) S 1 71 71 0 -1 4194304 100 0 0 0 5 6 0 0 20 0 1 0 x"));
  EXPECT_FALSE(parse_process_stat("71 (a) S x 71 71 0 -1 4194304 100 0 0 0 5 6 0 0 20 0 1 0 1"));
}

TEST(ProcessStat, OfAChild) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::setsid();
    ::prctl(PR_SET_NAME, "line\nend) Z 7");
    for (;;) ::pause();
  }
  while (::getsid(child) != child) ::usleep(1000);
  const auto stat = read_process_stat(child);
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->parent, ::getpid());
  EXPECT_EQ(stat->session, child);
  EXPECT_GT(stat->started_ticks, 0);
  ::kill(child, SIGKILL);
  siginfo_t info;
  ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);
  ASSERT_TRUE(read_process_stat(child));
  EXPECT_EQ(read_process_stat(child)->state, 'Z');
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(read_process_stat(child));
}

TEST(ProcessStat, FirstLineOfAFileThatMayBeMissing) {
  EXPECT_EQ(first_line("/proc/self/status").substr(0, 5), "Name:");
  EXPECT_EQ(first_line("/proc/self/no such file"), "");
}

}  // namespace
}  // namespace trireme
