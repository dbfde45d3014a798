// Requests for faults, and the processes that they may hit.
#include "launch/supervisor/machine/faults.h"

#include <csignal>
#include <filesystem>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "tests/support/message_of.h"
#include "tests/support/scratch_directory.h"

namespace trireme::supervisor::test {
namespace {

using testing::HasSubstr;

/// A process that waits, as mpirun or a rank does.
class Waiting {
 public:
  explicit Waiting(const std::vector<std::string>& words, const Variables& variables = {})
      : id_(start_program(words, variables, -1, true)) {}
  ~Waiting() {
    ::kill(-id_, SIGKILL);
    wait();
  }
  pid_t id() const { return id_; }
  int wait() {
    int status = 0;
    if (!waited_) ::waitpid(id_, &status, 0);
    waited_ = true;
    return status;
  }

 private:
  pid_t id_;
  bool waited_ = false;
};

class Faults : public testing::Test {
 protected:
  Faults() { std::filesystem::create_directories(paths_.folder); }
  /// mpirun with two ranks, of which the second is started by a script.
  std::vector<std::string> launcher() const {
    return {"/bin/sh", "-c",
            "OMPI_COMM_WORLD_RANK=0 sleep 100 & "
            "OMPI_COMM_WORLD_RANK=1 sh -c 'sleep 100; true' & sleep 101 & wait"};
  }
  std::vector<Descendant> victims(const std::string& kind, pid_t launcher) const {
    std::vector<Descendant> found;
    for (int i = 0; i < 500 && found.size() < (kind == "daemon" ? 1U : 2U); ++i) {
      ::usleep(10000);
      found = victims_of(*find_fault_kind(kind), launcher);
    }
    return found;
  }
  std::string token() const { return read_offer(paths_)->token; }

  ScratchDirectory folder_;
  const Paths paths_{folder_ / "run"};
};

TEST_F(Faults, HitTheInnermostProcessOfARank) {
  const Waiting launcher_process(launcher(), {"KEY=1"});
  const auto ranks_that_sleep = [&] {  // and programs of others
    std::set<std::string> values;
    for (const Descendant& rank : victims("kill", launcher_process.id())) {
      std::error_code gone;
      const auto program =
          std::filesystem::read_symlink("/proc/" + std::to_string(rank.id) + "/exe", gone);
      values.insert(program.filename() == "sleep" ? rank.value : program.filename().string());
    }
    return values;
  };
  const std::set<std::string> both = {"0", "1"};
  for (int i = 0; i < 500 && ranks_that_sleep() != both; ++i) ::usleep(10000);
  EXPECT_EQ(ranks_that_sleep(), both);
}

TEST_F(Faults, OfDaemonsHitChildrenOfTheLauncherThatAreNoRanks) {
  const Waiting launcher_process(launcher(), {"KEY=1"});
  ASSERT_EQ(victims("kill", launcher_process.id()).size(), 2U);
  const auto daemons = victims("daemon", launcher_process.id());
  ASSERT_EQ(daemons.size(), 1U);
  EXPECT_EQ(daemons.front().parent, launcher_process.id());
}

TEST_F(Faults, AreOrderedByARequestWithTheToken) {
  Waiting launcher_process({"/bin/sleep", "100"}, {"KEY=1"});
  const FaultDesk desk(paths_, 0, "KEY=1");
  EXPECT_FALSE(desk.read(launcher_process.id(), 4, 9));  // there is no request
  ask_for({token(), "mpirun", 5}, paths_);
  EXPECT_FALSE(desk.read(-1, 4, 9));  // no attempt runs: later
  const auto order = desk.read(launcher_process.id(), 4, 9);
  ASSERT_TRUE(order.has_value());
  EXPECT_EQ(order->fault.attempt, 4);
  EXPECT_EQ(order->process, launcher_process.id());
  EXPECT_TRUE(is_pending(paths_));  // until it is done
  desk.strike(*order);
  EXPECT_FALSE(is_pending(paths_));
  EXPECT_EQ(WTERMSIG(launcher_process.wait()), SIGKILL);
}

TEST_F(Faults, NeverHitAProcessOfAnotherRun) {
  Waiting stranger({"/bin/sleep", "100"}, {"KEY=2"});
  const FaultDesk desk(paths_, 0, "KEY=1");
  ask_for({token(), "mpirun", 0}, paths_);
  desk.strike(*desk.read(stranger.id(), 1, 1));
  EXPECT_EQ(::kill(stranger.id(), 0), 0);
  ::usleep(20000);
  int status = 0;
  EXPECT_EQ(::waitpid(stranger.id(), &status, WNOHANG), 0);
}

TEST_F(Faults, AreRefusedWithoutTheTokenAndForOtherKinds) {
  const FaultDesk desk(paths_, 0, "KEY=1");
  const auto refusal = [&](const FaultRequest& request) {
    ask_for(request, paths_);
    const std::string message = trireme::message_of([&] { (void)desk.read(::getpid(), 1, 1); });
    EXPECT_FALSE(is_pending(paths_));
    return message;
  };
  EXPECT_THAT(refusal({"guessed", "kill", 0}), HasSubstr("without the token"));
  EXPECT_THAT(refusal({token(), "fire", 0}), HasSubstr("'fire', which is no kind of fault"));
  EXPECT_THAT(refusal({token(), "kill", 0}), HasSubstr("of which there is no process here"));
}

TEST_F(Faults, AreOfferedToThisUserOnlyAndUntilTheSupervisorEnds) {
  {
    const FaultDesk desk(paths_, 2.5, "KEY=1");
    const auto offer = read_offer(paths_);
    ASSERT_TRUE(offer.has_value());
    EXPECT_EQ(offer->run, paths_.run);
    EXPECT_EQ(offer->hang_s, 2.5);
    struct stat info = {};
    ASSERT_EQ(::stat((paths_.folder + "/chaos-offer").c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600U);
  }
  EXPECT_FALSE(read_offer(paths_).has_value());
}

}  // namespace
}  // namespace trireme::supervisor::test
