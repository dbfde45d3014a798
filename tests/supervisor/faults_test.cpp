// Requests for faults, and the processes that they may hit.
#include "launch/chaos/faults.h"

#include <csignal>
#include <filesystem>
#include <memory>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/core/process/child.h"
#include "runtime/observe/status_page.h"
#include "tests/support/message_of.h"
#include "tests/support/scratch_directory.h"

namespace trireme::supervisor::test {
namespace {

using testing::HasSubstr;

/// A process that waits, as mpirun or a rank does.
class Waiting {
 public:
  Waiting(const std::vector<std::string>& words, const std::vector<std::string>& variables)
      : child_(words, {.environment = environment_with(variables), .ending_s = 0}) {}
  pid_t id() const { return child_.id(); }
  const ChildEnd& wait() { return child_.wait(); }
  bool runs() { return child_.poll() == nullptr; }

 private:
  Child child_;
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
  EXPECT_FALSE(desk.read({launcher_process.id(), 4, 9}));  // there is no request
  ask_for({token(), "mpirun", 5}, paths_);
  EXPECT_FALSE(desk.read({-1, 4, 9}));  // no attempt runs: later
  const auto order = desk.read({launcher_process.id(), 4, 9});
  ASSERT_TRUE(order.has_value());
  EXPECT_EQ(order->fault.attempt, 4);
  EXPECT_EQ(order->process, launcher_process.id());
  EXPECT_TRUE(is_pending(paths_));  // until it is done
  desk.strike(*order);
  EXPECT_FALSE(is_pending(paths_));
  EXPECT_EQ(launcher_process.wait().signal, SIGKILL);
}

TEST_F(Faults, NeverHitAProcessOfAnotherRun) {
  Waiting stranger({"/bin/sleep", "100"}, {"KEY=2"});
  const FaultDesk desk(paths_, 0, "KEY=1");
  ask_for({token(), "mpirun", 0}, paths_);
  desk.strike(*desk.read({stranger.id(), 1, 1}));
  ::usleep(20000);
  EXPECT_TRUE(stranger.runs());
}

TEST_F(Faults, AreRefusedWithoutTheTokenAndForOtherKinds) {
  const FaultDesk desk(paths_, 0, "KEY=1");
  const auto refusal = [&](const FaultRequest& request) {
    ask_for(request, paths_);
    const std::string message = trireme::message_of([&] { (void)desk.read({::getpid(), 1, 1}); });
    EXPECT_FALSE(is_pending(paths_));
    return message;
  };
  EXPECT_THAT(refusal({"guessed", "kill", 0}), HasSubstr("without the token"));
  EXPECT_THAT(refusal({token(), "fire", 0}), HasSubstr("'fire', which is no kind of fault"));
  EXPECT_THAT(refusal({token(), "kill", 0}), HasSubstr("of which there is no process here"));
}

TEST_F(Faults, OfRanksThatAnswerAreAskedForInTheirPages) {
  const FaultDesk desk(paths_, 0, "KEY=1");
  const std::string pages = folder_ / "pages";
  std::vector<std::unique_ptr<observe::StatusPage>> ranks;
  for (int rank = 0; rank < 3; ++rank)
    ranks.push_back(std::make_unique<observe::StatusPage>(pages, rank, 3));
  ranks[0]->fail("it has ended");  // so it is not asked
  for (const Index draw : {0, 1}) {
    ask_for({token(), "nan", draw}, paths_);
    const auto order = desk.read({::getpid(), 4, 9, pages});
    ASSERT_TRUE(order.has_value());
    EXPECT_EQ(order->fault.victim, draw == 0 ? "rank 1" : "rank 2");
    desk.strike(*order);
    const std::uint64_t word = ranks[static_cast<std::size_t>(draw) + 1]->take_injection();
    EXPECT_EQ(observe::injection_of(word).fault, observe::InjectedFault::nan);
    EXPECT_EQ(ranks[static_cast<std::size_t>(draw) + 1]->take_injection(), 0U);  // once
  }
}

TEST_F(Faults, OfTheDiskNeverHitTheRankThatWritesTheFileOfSteps) {
  const FaultDesk desk(paths_, 0, "KEY=1");
  const observe::StatusPage first(folder_ / "pages", 0, 2);
  ask_for({token(), "full-disk", 0}, paths_);
  EXPECT_THAT(trireme::message_of([&] {
                (void)desk.read({::getpid(), 1, 1, folder_ / "pages"});
              }),
              HasSubstr("no rank here that writes a status page, besides rank 0"));
  const observe::StatusPage second(folder_ / "pages", 1, 2);
  ask_for({token(), "full-disk", 0}, paths_);
  const auto order = desk.read({::getpid(), 1, 1, folder_ / "pages"});
  ASSERT_TRUE(order.has_value());
  EXPECT_EQ(order->fault.victim, "rank 1");
}

TEST_F(Faults, OfHostsNeedHostsAndASpareAndAreDoneByOthers) {
  const FaultDesk desk(paths_, 0, "KEY=1");
  const auto refusal = [&](const Scene& scene) {
    ask_for({token(), "node", 1}, paths_);
    return trireme::message_of([&] { (void)desk.read(scene); });
  };
  EXPECT_THAT(refusal({::getpid(), 1, 1}), HasSubstr("has no hosts besides this machine"));
  const std::vector<Host> hosts = {{"n1", 1}, {"n2", 1}};
  EXPECT_THAT(refusal({::getpid(), 1, 1, "", hosts, 0}), HasSubstr("no spare host is left"));
  ask_for({token(), "node", 1}, paths_);
  const auto order = desk.read({::getpid(), 1, 1, "", hosts, 1});
  ASSERT_TRUE(order.has_value());
  EXPECT_EQ(order->fault.victim, "host n2");
  EXPECT_LE(order->process, 0);
  EXPECT_TRUE(order->page.empty());
  ask_for({token(), "corrupt", 1}, paths_);
  EXPECT_THAT(trireme::message_of([&] {
                (void)desk.read({::getpid(), 1, 1});
              }),
              HasSubstr("which trireme chaos does itself"));
}

TEST_F(Faults, AreOfferedToThisUserOnlyAndUntilTheSupervisorEnds) {
  {
    const FaultDesk desk(paths_, 2.5, "KEY=1", false);
    const auto offer = read_offer(paths_);
    ASSERT_TRUE(offer.has_value());
    EXPECT_FALSE(offer->compares);
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
