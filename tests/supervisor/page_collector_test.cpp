// The pages of another machine as the supervisor gets them: agent and collector are real, and so
// are their connections; the machine is this one.
#include "launch/supervisor/machine/page_collector.h"

#include <chrono>
#include <filesystem>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"

#include "launch/supervisor/machine/rank_watch.h"
#include "runtime/observe/remote/page_agent.h"
#include "runtime/observe/status_page.h"
#include "tests/supervisor/stranger.h"
#include "tests/support/message_of.h"
#include "tests/support/process.h"
#include "tests/support/scratch_directory.h"

namespace trireme::supervisor::test {
namespace {

using observe::PageAgent;
using observe::PageMessage;
using observe::PageReader;
using observe::Phase;
using observe::StatusPage;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr double long_s = 60;

/// Two ranks on a node, whose agent is a thread.
class PageCollectors : public testing::Test {
 protected:
  PageCollectors() {
    for (StatusPage* page : {&one_, &other_}) {
      page->enter(Phase::step);
      page->begin_step(3);
    }
    one_.set_coordinates("pp0 dp0 tp0");
  }
  ~PageCollectors() override {
    collector_.reset();
    if (thread_.joinable()) thread_.join();
  }
  void start_agent() {
    thread_ = std::thread([this] {
      agent_.connect(collector_->address(), long_s);
      agent_.serve();
      agent_.clean();
    });
  }
  template <class Predicate>
  bool poll_until(Predicate predicate) {
    for (int i = 0; i < 60000; ++i) {
      collector_->poll();
      if (predicate()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }
  bool wait_for_copies() {
    return poll_until([&] { return collector_->find(0) && collector_->find(1); });
  }
  PageReader copy(int rank) const {
    return PageReader(observe::page_path(collector_->directory(), rank));
  }

  const ScratchDirectory folder_{ScratchDirectory::in_memory()};
  const std::string attempt_ = folder_ / "trireme-0123-a2", pages_ = attempt_ + "/pages";
  StatusPage one_{pages_, 0, 2}, other_{pages_, 1, 2};
  std::unique_ptr<PageCollector> collector_ =
      std::make_unique<PageCollector>(folder_ / "copies", 2);
  PageAgent agent_{pages_};
  std::thread thread_;
};

TEST_F(PageCollectors, KeepCopiesOfThePagesOfANode) {
  start_agent();
  ASSERT_TRUE(wait_for_copies());
  const observe::PageState found = copy(0).read();
  EXPECT_EQ(found.rank, 0);
  EXPECT_EQ(found.step, 3);
  EXPECT_EQ(found.coordinates, "pp0 dp0 tp0");
  EXPECT_THAT(found.torn, IsEmpty());
  EXPECT_TRUE(collector_->find(0)->running);
  EXPECT_EQ(collector_->find(0)->state.started_ticks, found.started_ticks);
  EXPECT_TRUE(collector_->any_answers_within(long_s));
}

TEST_F(PageCollectors, AreReachedByIpv6) {
  const std::string own = "00000000000000000000000000000001";  // ::1
  if (trireme::test::count(trireme::test::read_text("/proc/net/if_inet6"), own) == 0)
    GTEST_SKIP() << "this machine does not have ::1";
  observe::SupervisorAddress address = collector_->address();
  address.addresses = {"::1"};
  EXPECT_EQ(observe::parse_supervisor_address(observe::to_text(address)).addresses,
            address.addresses);
  thread_ = std::thread([&] {
    agent_.connect(observe::parse_supervisor_address(observe::to_text(address)), long_s);
    agent_.serve();
  });
  ASSERT_TRUE(wait_for_copies());
  EXPECT_EQ(copy(0).read().step, 3);
  EXPECT_TRUE(collector_->any_answers_within(long_s));
}

TEST_F(PageCollectors, SeeThatARankMovesWithoutAsking) {
  start_agent();
  ASSERT_TRUE(wait_for_copies());
  const PageReader reader = copy(1);
  const std::uint64_t before = reader.progress().ops;
  other_.progressed();
  EXPECT_TRUE(poll_until([&] { return reader.progress().ops > before; }));
}

TEST_F(PageCollectors, GetWholePagesWhenTheyAsk) {
  start_agent();
  ASSERT_TRUE(wait_for_copies());
  for (Index step = 4; step < 40; ++step) {  // faster than pages are sent unasked
    other_.begin_step(step);
    collector_->request(long_s);
    EXPECT_EQ(copy(1).read().step, step);
  }
}

TEST_F(PageCollectors, WaitForNoAgentThatIsGone) {
  start_agent();
  ASSERT_TRUE(wait_for_copies());
  {
    Stranger silent(collector_->address().port);
    silent.connection().send(PageMessage::hello, -1, collector_->address().token, true);
    ASSERT_TRUE(poll_until([] { return true; }));
    collector_->request(0.2);  // the stranger knows the token, and answers nothing
  }
  EXPECT_EQ(copy(0).read().step, 3);
}

TEST_F(PageCollectors, EndTheConnectionOfAnAgentThatTakesNothing) {
  Stranger deaf(collector_->address().port);
  deaf.connection().send(PageMessage::hello, -1, collector_->address().token, true);
  ASSERT_TRUE(poll_until([&] { return collector_->any_answers_within(long_s); }));
  // Until no more requests fit into what the system keeps of them.
  for (int i = 0; i < 10'000'000 && collector_->any_answers_within(10 * long_s); ++i)
    collector_->request(0);
  EXPECT_FALSE(collector_->any_answers_within(10 * long_s));
  EXPECT_TRUE(deaf.is_dropped(*collector_));
}

TEST_F(PageCollectors, NameTheStackOfARankThatDoesNotCatchTheSignal) {
  start_agent();
  ASSERT_TRUE(wait_for_copies());
  EXPECT_THAT(collector_->stack_of(0, long_s).why, HasSubstr("does not catch SIGUSR2"));
}

TEST_F(PageCollectors, DropStrangersAndWhatIsNoMessage) {
  start_agent();
  ASSERT_TRUE(wait_for_copies());
  const std::string token = collector_->address().token;
  const int port = collector_->address().port;
  Stranger browser(port), guesser(port), long_name(port);
  browser.say("GET / HTTP/1.1\r\nHost: node0\r\n\r\n");
  EXPECT_TRUE(browser.is_dropped(*collector_));
  guesser.connection().send(PageMessage::hello, -1, std::string(token.size(), '0'), true);
  EXPECT_TRUE(guesser.is_dropped(*collector_));
  long_name.connection().send(PageMessage::hello, -1, std::string(10000, 'x'), true);
  EXPECT_TRUE(long_name.is_dropped(*collector_));
  const std::string page(sizeof(observe::PageNote) + sizeof(observe::PageLayout), '\x7f');
  for (const auto& [rank, body] :
       {std::pair<int, std::string>{0, page}, {-1, page}, {2, page}, {0, ""}, {1, "short"}}) {
    Stranger liar(port);
    liar.connection().send(PageMessage::hello, -1, token, true);
    liar.connection().send(PageMessage::page, rank, body, true);
    EXPECT_TRUE(liar.is_dropped(*collector_)) << rank << ", " << body.size() << " bytes";
  }
  collector_->request(long_s);  // the agent is as it was
  EXPECT_EQ(copy(0).read().step, 3);
  EXPECT_TRUE(collector_->find(1)->running);
}

TEST_F(PageCollectors, KeepFewConnectionsOfThoseWhoSayNothing) {
  start_agent();
  ASSERT_TRUE(wait_for_copies());
  std::vector<std::unique_ptr<Stranger>> crowd;
  for (int i = 0; i < 80; ++i) {
    crowd.push_back(std::make_unique<Stranger>(collector_->address().port));
    collector_->poll();
  }
  EXPECT_TRUE(crowd.front()->is_dropped(*collector_));
  other_.begin_step(9);
  collector_->request(long_s);
  EXPECT_EQ(copy(1).read().step, 9);
}

TEST_F(PageCollectors, LeaveNoPagesOnTheNodeOfThisAttemptAndOlderOnes) {
  const std::string older = folder_ / "trireme-0123-a1", newer = folder_ / "trireme-0123-a3",
                    other = folder_ / "trireme-4567-a1";
  for (const std::string& attempt : {older, newer, other}) {
    StatusPage left(attempt + "/pages", 0, 1);
    left.enter(Phase::finished);
  }
  start_agent();
  ASSERT_TRUE(wait_for_copies());
  collector_.reset();  // the supervisor has ended
  thread_.join();
  EXPECT_FALSE(std::filesystem::exists(attempt_));
  EXPECT_FALSE(std::filesystem::exists(older));
  EXPECT_TRUE(std::filesystem::exists(newer + "/pages/rank-00000"));
  EXPECT_TRUE(std::filesystem::exists(other + "/pages/rank-00000"));
}

TEST_F(PageCollectors, AreNamedInTheErrorOfAnAgentThatCannotReachThem) {
  observe::SupervisorAddress address = collector_->address();
  collector_.reset();
  EXPECT_THAT(message_of([&] { agent_.connect(address, 0); }),
              HasSubstr("the supervisor cannot be reached at "));
  address.addresses = {"no address"};
  EXPECT_THAT(message_of([&] { agent_.connect(address, 0); }),
              HasSubstr("cannot be reached at no address, port "));
}

/// The silent machine is one whose pages come no more.
TEST_F(PageCollectors, ShowASilentMachineAsTheCulprit) {
  const std::vector<Host> hosts = {{"node0"}, {"node1"}};
  const observe::SupervisorAddress address = collector_->address();
  auto watch = std::make_unique<RankWatch>(
      RankWatch::Options{collector_->directory(), folder_.path(), 2, 1.0, hosts, 1},
      std::move(collector_));
  const ScratchDirectory first{ScratchDirectory::in_memory()},
      second{ScratchDirectory::in_memory()};
  StatusPage on_first(first / "pages", 0, 2), on_second(second / "pages", 1, 2);
  for (StatusPage* page : {&on_first, &on_second}) {
    page->enter(Phase::step);
    for (Index step = 1; step <= 2; ++step) {
      page->begin_step(step);
      page->end_step(step, 1, 1);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    page->begin_step(3);
  }
  PageAgent lives(first / "pages");
  // It says what a real agent says first, and then nothing.
  std::thread living([&] {
    lives.connect(address, long_s);
    lives.serve();
  });
  Stranger silent(address.port);
  silent.show(address.token, 1, PageReader(observe::page_path(second / "pages", 1)));
  std::optional<Hang> hang;
  const auto began = std::chrono::steady_clock::now();
  const auto now_s = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  };
  while (now_s() < long_s && !(hang && hang->end)) {
    if (auto found = watch->observe(now_s())) hang = found;
    on_first.heartbeat();
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ASSERT_TRUE(hang && hang->end);
  EXPECT_EQ(hang->sentence, "hang: node1 (rank 1) does not answer");
  EXPECT_THAT(hang->hosts, testing::ElementsAre("node1"));
  watch.reset();
  living.join();
}

}  // namespace
}  // namespace trireme::supervisor::test
