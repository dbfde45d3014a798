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

}  // namespace
}  // namespace trireme::observe
