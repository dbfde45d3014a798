// What the supervisor makes of silence when its own machine is cut off: the agent of that machine
// answers all the same. Other machines are other addresses of the loopback device.
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/supervisor/machine/rank_watch.h"
#include "runtime/observe/status_page.h"
#include "tests/supervisor/stranger.h"
#include "tests/support/scratch_directory.h"

namespace trireme::supervisor::test {
namespace {

using observe::PageMessage;
using observe::Phase;
using observe::StatusPage;

constexpr std::uint32_t this_machine = INADDR_LOOPBACK, second = this_machine + 1,
                        third = this_machine + 2;
constexpr double long_s = 60;

class CutOff : public testing::Test {
 protected:
  std::unique_ptr<Stranger> agent(std::uint32_t from) const {
    auto agent = std::make_unique<Stranger>(address_.port, from);
    agent->connection().send(PageMessage::hello, -1, address_.token, true);
    return agent;
  }
  /// Only `living` sends anything, until `done`.
  template <class Predicate>
  bool alive_until(Stranger& living, Predicate done) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    do {
      living.connection().send(PageMessage::alive, -1, "", true);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      collector_->poll();
    } while (!done() && std::chrono::steady_clock::now() < until);
    return done();
  }

  const ScratchDirectory folder_{ScratchDirectory::in_memory()};
  std::unique_ptr<PageCollector> collector_ =
      std::make_unique<PageCollector>(folder_ / "copies", 3);
  const observe::SupervisorAddress address_ = collector_->address();
};

TEST_F(CutOff, IsAMachineWhoseOwnAgentOnlyAnswers) {
  const auto own = agent(this_machine), one = agent(second), other = agent(third);
  constexpr double silent_s = 0.5;
  EXPECT_TRUE(alive_until(*one, [&] { return collector_->any_answers_within(silent_s); }));
  EXPECT_TRUE(alive_until(*own, [&] { return !collector_->any_answers_within(silent_s); }));
  EXPECT_TRUE(alive_until(*other, [&] { return collector_->any_answers_within(silent_s); }));
}

TEST_F(CutOff, IsNoMachineOfTwo) {
  const auto own = agent(this_machine), other = agent(second);
  constexpr double silent_s = 0.5;
  ASSERT_TRUE(alive_until(*own, [&] { return collector_->any_answers_within(silent_s); }));
  std::this_thread::sleep_for(std::chrono::duration<double>(2 * silent_s));  // now both are silent
  EXPECT_TRUE(alive_until(*own, [&] { return collector_->any_answers_within(silent_s); }));
}

TEST_F(CutOff, BlamesNoOther) {
  StatusPage own(folder_ / "own", 0, 3), one(folder_ / "one", 1, 3), other(folder_ / "other", 2, 3);
  for (StatusPage* page : {&own, &one, &other}) {
    page->enter(Phase::step);
    for (Index step = 1; step <= 2; ++step) {
      page->begin_step(step);
      page->end_step(step, 1, 1);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // a gap: steps are known
    page->begin_step(3);
  }
  const std::string copies = collector_->directory();
  const std::vector<Host> hosts = {{"node0"}, {"node1"}, {"node2"}};
  RankWatch watch({copies, folder_.path(), 3, 1.0, hosts, 1}, std::move(collector_));
  Stranger living(address_.port), silent(address_.port, second), mute(address_.port, third);
  const auto page = [&](const char* name, int rank) {
    return observe::PageReader(observe::page_path(folder_ / name, rank));
  };
  living.show(address_.token, 0, page("own", 0));
  silent.show(address_.token, 1, page("one", 1));
  mute.show(address_.token, 2, page("other", 2));
  const auto began = std::chrono::steady_clock::now();
  const auto now_s = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  };
  bool were_seen = false, are_seen = true;
  std::optional<Hang> hang;
  while (now_s() < long_s && are_seen && !hang) {
    living.connection().send(PageMessage::alive, -1, "", true);
    hang = watch.observe(now_s());
    were_seen = were_seen || watch.has_pages();
    are_seen = !were_seen || watch.has_pages();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(were_seen);
  EXPECT_FALSE(are_seen);
  EXPECT_FALSE(hang) << hang->sentence;
}

}  // namespace
}  // namespace trireme::supervisor::test
