// What the kernel says about processes: running, stopped, ended and not yet waited for, gone.
#include "runtime/observe/process_state.h"

#include <csignal>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace trireme::observe {
namespace {

/// A child that sleeps; killed and waited for at the end.
class Child {
 public:
  Child() : pid_(::fork()) {
    if (pid_ == 0)
      for (;;) ::pause();
  }
  ~Child() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  pid_t pid() const { return pid_; }
  void send(int signal, int state) const {
    ::kill(pid_, signal);
    siginfo_t info;
    ::waitid(P_PID, static_cast<id_t>(pid_), &info, state | WNOWAIT);
  }

 private:
  pid_t pid_;
};

TEST(ProcessState, OfThisProcess) {
  const auto state = read_process_state(::getpid());
  ASSERT_TRUE(state);
  EXPECT_EQ(state->state, 'R');
  EXPECT_GT(state->started_ticks, 0);
  EXPECT_EQ(state->tracer_pid, 0);
}

TEST(ProcessState, OfAStoppedProcess) {
  const Child child;
  child.send(SIGSTOP, WSTOPPED);
  ASSERT_TRUE(read_process_state(child.pid()));
  EXPECT_EQ(read_process_state(child.pid())->state, 'T');
}

TEST(ProcessState, OfAProcessThatHasEnded) {
  pid_t pid = 0;
  {
    const Child child;
    pid = child.pid();
    child.send(SIGKILL, WEXITED);
    ASSERT_TRUE(read_process_state(pid));
    EXPECT_EQ(read_process_state(pid)->state, 'Z');
  }
  EXPECT_FALSE(read_process_state(pid));
}

TEST(ProcessState, IsReadWhateverTheNameOfTheProgram) {
  const auto state = parse_process_stat(
      "71 (a) D (b) c) S 1 71 71 0 -1 4194304 100 0 0 0 5 6 0 0 20 0 1 0 12345 1000 10 0");
  ASSERT_TRUE(state);
  EXPECT_EQ(state->state, 'S');
  EXPECT_EQ(state->started_ticks, 12345);
  EXPECT_FALSE(parse_process_stat(""));
  EXPECT_FALSE(parse_process_stat("71 (a) S 1 71"));
  EXPECT_FALSE(parse_process_stat("71 (a) S 1 71 71 0 -1 4194304 100 0 0 0 5 6 0 0 20 0 1 0 x"));
}

}  // namespace
}  // namespace trireme::observe
