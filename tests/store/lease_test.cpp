// The lease: one holder at a time, whatever the others are: alive, gone, stopped, elsewhere, or a
// copy of the directory.
#include "runtime/store/lease/lease.h"

#include <atomic>
#include <chrono>
#include <csignal>
#include <memory>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/store/file.h"
#include "runtime/store/lease/lock_file.h"
#include "runtime/store/steps.h"
#include "tests/support/message_of.h"
#include "tests/support/scratch_directory.h"
#include "tests/support/training_run.h"

namespace trireme::store {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// No lease goes stale here before the test's time-out: what is taken is taken for another reason.
constexpr LeaseOptions quick{.wait_s = 0.2, .stale_s = 1e6, .renew_s = 0.01};
/// For a lease that is not renewed.
constexpr LeaseOptions impatient{.wait_s = 0.1, .stale_s = 0.2, .renew_s = 0.02};

std::string refusal(const std::string& root, const LeaseOptions& options = quick,
                    const Lineage& lineage = {}) {
  try {
    const Lease lease(root, "second", options, {}, lineage);
    return "taken";
  } catch (const Error& error) {
    return error.what();
  }
}

/// A child that takes the lease and is killed, and not waited for yet: it is a zombie.
pid_t dead_holder(const std::string& root) {
  int ready[2];
  require(::pipe(ready) == 0, "pipe");
  const pid_t child = ::fork();
  if (child == 0) {
    const Lease lease(root, "dead", quick);
    (void)!::write(ready[1], "x", 1);
    for (;;) ::pause();
  }
  char byte;
  require(::read(ready[0], &byte, 1) == 1, "the child did not take the lease");
  ::close(ready[0]);
  ::close(ready[1]);
  ::kill(child, SIGKILL);
  siginfo_t info;
  ::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);
  return child;
}

void forge_lock(const std::string& root, const LeaseHolder& holder) {
  write_whole(root + "/lock", to_text(holder));
}

TEST(Lease, IsHeldAndGivenBack) {
  const ScratchDirectory folder;
  const std::string root = folder / "run";
  {
    const Lease lease(root, "first", quick);
    EXPECT_TRUE(lease.held());
  }
  EXPECT_TRUE(list_directory(root).empty());
  EXPECT_EQ(refusal(root), "taken");
}

TEST(Lease, RefusesASecondJobAndNamesTheFirst) {
  const ScratchDirectory folder;
  const std::string root = folder / "run";
  const Lease lease(root, "first", quick);
  EXPECT_THAT(refusal(root), AllOf(HasSubstr(str("pid ", ::getpid(), " on ")),
                                   HasSubstr("(run first, since 20"), HasSubstr("remove " + root)));
  EXPECT_TRUE(lease.held());
}

TEST(Lease, IsRefusedAtOnceWhereItsLockIsNoFile) {
  const ScratchDirectory folder;
  const std::string pipe = folder / "pipe", directory = folder / "directory";
  make_directory(pipe);
  ASSERT_EQ(::mkfifo((pipe + "/lock").c_str(), 0600), 0);
  std::filesystem::create_directories(directory + "/lock");
  EXPECT_EQ(refusal(pipe), pipe + "/lock: is a pipe, but a file is needed here");
  EXPECT_EQ(refusal(directory), directory + "/lock: is a directory, but a file is needed here");
  EXPECT_THAT(message_of([&] { remove_lock(pipe + "/lock", "id", "own"); }),
              HasSubstr("is a pipe"));
}

TEST(Lease, WaitsForAHolderThatIsEnding) {
  const ScratchDirectory folder;
  const std::string root = folder / "run";
  auto first = std::make_unique<Lease>(root, "first", quick);
  std::thread ends([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    first.reset();
  });
  LeaseOptions waiting = quick;
  waiting.wait_s = 1e6;
  EXPECT_EQ(refusal(root, waiting), "taken");
  ends.join();
}

TEST(Lease, IsNoLongerWaitedForWhenItsTakerIsToStop) {
  const ScratchDirectory folder;
  const Lease first(folder / "run", "first", quick);
  LeaseOptions waiting = quick;
  waiting.wait_s = 1e6;
  int asked = 0;
  EXPECT_THROW(Lease(folder / "run", "second", waiting, [&] { return ++asked == 3; }),
               LeaseGivenUp);
  EXPECT_EQ(asked, 3);
  EXPECT_TRUE(first.held());
}

TEST(Lease, IsRefusedAtOnceToAProcessThatDoesNotWait) {
  const ScratchDirectory folder;
  LeaseOptions at_once = quick;
  at_once.wait_s = 0;
  at_once.renew_s = 1e6;  // never: nothing shows but that the process lives
  const Lease first(folder / "run", "first", at_once);
  EXPECT_THAT(refusal(folder / "run", at_once), HasSubstr("another job saves to this directory"));
}

TEST(Lease, ThatHasJustEndedIsNotTakenByAProcessThatDoesNotWait) {
  const ScratchDirectory folder;
  const std::string root = folder / "run";
  LeaseHolder elsewhere = LeaseHolder::self("elsewhere");
  elsewhere.boot = "of another machine";
  make_directory(root);
  forge_lock(root, elsewhere);
  LeaseOptions at_once = quick;
  at_once.wait_s = 0;
  int asked = 0;
  const auto ends = [&] {
    if (++asked == 3) std::filesystem::remove(root + "/lock");
    return false;
  };
  EXPECT_THAT(message_of([&] { Lease(root, "second", at_once, ends); }),
              HasSubstr("has just ended: start again if that was not meant"));
  EXPECT_EQ(refusal(root, at_once), "taken");
}

TEST(Lease, OfAProcessThatIsGoneIsTakenAtOnce) {
  const ScratchDirectory folder;
  const std::string root = folder / "run";
  const pid_t child = dead_holder(root);
  EXPECT_EQ(refusal(root), "taken");  // from a zombie
  ::waitpid(child, nullptr, 0);
  LeaseHolder holder = LeaseHolder::self("gone");
  holder.pid = child;
  forge_lock(root, holder);
  EXPECT_EQ(refusal(root), "taken");
  holder.pid = ::getpid();  // the pid is used again, by this process
  holder.started -= 1;
  forge_lock(root, holder);
  EXPECT_EQ(refusal(root), "taken");
}

TEST(Lease, OfAHolderElsewhereIsTakenOnlyWhenItDoesNotChange) {
  const ScratchDirectory folder;
  const std::string root = folder / "run";
  make_directory(root);
  LeaseHolder holder = LeaseHolder::self("elsewhere");
  holder.boot = "another machine, of the same name";
  holder.pid = 1 << 30;
  forge_lock(root, holder);
  EXPECT_EQ(refusal(root, impatient), "taken");
  forge_lock(root, holder);
  std::atomic<bool> ended = false;
  std::thread renews([&] {
    for (; !ended; std::this_thread::sleep_for(std::chrono::milliseconds(5)))
      ::utimensat(AT_FDCWD, (root + "/lock").c_str(), nullptr, 0);
  });
  EXPECT_THAT(refusal(root), HasSubstr("run elsewhere"));
  ended = true;
  renews.join();
}

/// Whose machine is lost: nothing else can show that it has ended.
TEST(Lease, OfAnEarlierAttemptOfTheSameRunIsTakenAtOnce) {
  const auto taken_from = [](const Lineage& holder_lineage, const Lineage& taker) {
    const ScratchDirectory folder;
    const std::string root = folder.path();
    LeaseHolder holder = LeaseHolder::self("elsewhere", holder_lineage);
    holder.boot = "a machine that is lost";
    forge_lock(root, holder);
    std::atomic<bool> ended = false;
    std::thread renews([&] {
      for (; !ended; std::this_thread::sleep_for(std::chrono::milliseconds(5)))
        ::utimensat(AT_FDCWD, (root + "/lock").c_str(), nullptr, 0);
    });
    const std::string result = refusal(root, quick, taker);
    ended = true;
    renews.join();
    return result == "taken";
  };
  EXPECT_TRUE(taken_from({"a", 3}, {"a", 4}));
  EXPECT_FALSE(taken_from({"a", 4}, {"a", 4}));
  EXPECT_FALSE(taken_from({"a", 5}, {"a", 4}));
  EXPECT_FALSE(taken_from({"b", 3}, {"a", 4}));
  EXPECT_FALSE(taken_from({}, {"a", 4}));
  EXPECT_FALSE(taken_from({"a", 3}, {}));
  EXPECT_FALSE(taken_from({}, {}));
}

TEST(Lease, ThatWasCopiedOrIsNotOursGoesStale) {
  const ScratchDirectory folder;
  const std::string root = folder / "run", copy = folder / "copy";
  const Lease lease(root, "first", quick);
  make_directory(copy);
  write_whole(copy + "/lock", read_whole(root + "/lock", 1 << 16));
  EXPECT_EQ(refusal(copy, impatient), "taken");
  for (const char* torn : {"{\n", "{\"id\":\n", "[]\n"}) {
    write_whole(copy + "/lock", torn);
    EXPECT_EQ(refusal(copy, impatient), "taken") << torn;
  }
  EXPECT_TRUE(lease.held());
}

/// As left by versions that made the file first and wrote it then.
TEST(Lease, ThatIsEmptyOrHalfWrittenDoesNotBlockForLong) {
  const ScratchDirectory folder;
  constexpr LeaseOptions patient{.wait_s = 1e6, .stale_s = 1e6, .renew_s = 1, .torn_s = 0.1};
  for (const char* torn : {"", "{", "{\"id\":"}) {
    folder.write("lock", torn);
    EXPECT_EQ(refusal(folder.path(), patient), "taken") << torn;
  }
}

TEST(Lease, BesideTheLockGoesWhenAJobStarts) {
  const ScratchDirectory folder;
  folder.write("lock.new-1", "{");
  folder.write("lock.away-2", "");
  const Lease lease(folder.path(), "first", quick);
  clean_leftovers(folder.path());
  EXPECT_THAT(list_directory(folder.path()), ElementsAre("lock"));
}

/// Its text is looked for until it is there: a lock that is seen says whose it is.
TEST(Lease, IsNeverSeenWithoutItsHolder) {
  const ScratchDirectory folder;
  const std::string root = folder.path();
  std::atomic<bool> ended = false;
  std::thread takes([&] {
    while (!ended) const Lease lease(root, "taker", quick);
  });
  for (int seen = 0; seen < 1000;)
    if (const auto sight = look_at_lock(root + "/lock")) {
      ASSERT_TRUE(parse_lease_holder(sight->text)) << sight->text;
      ++seen;
    }
  ended = true;
  takes.join();
}

TEST(Lease, IsLostToATakerAndNotTakenBack) {
  const ScratchDirectory folder;
  const std::string root = folder / "run";
  auto first = std::make_unique<Lease>(root, "first", quick);
  remove_file(root + "/lock");
  EXPECT_FALSE(first->held());
  const Lease second(root, "second", quick);
  EXPECT_FALSE(first->held());
  first.reset();
  EXPECT_TRUE(second.held());
}

TEST(Lease, IsNotGivenBackByAForkedChild) {
  const ScratchDirectory folder;
  auto lease = std::make_unique<Lease>(folder / "run", "first", quick);
  const pid_t child = ::fork();
  if (child == 0) {
    const bool held = lease->held();
    lease.reset();
    ::_exit(held ? 1 : 0);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(lease->held());
}

TEST(Lease, OfADeadHolderHasOneTakerOfMany) {
  const ScratchDirectory folder;
  const std::string root = folder / "run";
  for (int round = 0; round < 5; ++round) {
    ::waitpid(dead_holder(root), nullptr, 0);
    std::atomic<int> takers = 0, refused = 0;
    std::vector<std::thread> threads;
    std::atomic<int> waiting = 8;
    for (int i = 0; i < 8; ++i)
      threads.emplace_back([&] {
        for (--waiting; waiting > 0;) std::this_thread::yield();
        try {
          const Lease lease(root, "taker", quick);
          ++takers;
          while (takers + refused < 8) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          EXPECT_TRUE(lease.held());
        } catch (const Error&) {
          ++refused;
        }
      });
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(takers, 1);
    EXPECT_TRUE(list_directory(root).empty());
  }
}

}  // namespace
}  // namespace trireme::store
