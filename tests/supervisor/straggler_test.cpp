// --on-straggler replace: a host that stays slow is left for a spare, within limits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/supervisor/supervision.h"

namespace trireme::supervisor::test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class Stragglers : public Supervision {
 protected:
  Stragglers() {
    settings_.replace_stragglers = true;
    settings_.nodes = 2;
    settings_.spares = 4;
    settings_.max_restarts = 0;  // it counts as no restart
    for (const char* name : {"n0", "n1", "n2", "n3", "n4", "n5"})
      world_.all_hosts.push_back({name, 1});
    world_.last_step = 400;
    world_.scripts = {slow("n1"), {.steps = 400}};
  }
  static Script slow(const std::string& host) {
    return {.steps = 400, .slow = {{host, "rank 1 is slow", 2}}, .slow_from = 20};
  }
  std::vector<std::string> nodes_of(std::size_t attempt) const {
    return history().attempts[attempt].began.nodes;
  }
};

TEST_F(Stragglers, ThatStaySlowAreReplacedOnceTheJobHasSaved) {
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(causes(), ElementsAre("replacement", "finished"));
  EXPECT_THAT(nodes_of(1), ElementsAre("n0", "n2"));
  const AttemptEnded ended = *history().attempts[0].ended;
  EXPECT_EQ(ended.durable, ended.last_step);
  EXPECT_GE(ended.last_step, 60);
  EXPECT_LT(ended.last_step, 100);
  EXPECT_THAT(world_.said, Contains("n1: rank 1 is slow: asks the job to save and end, to "
                                    "continue without this host"));
  EXPECT_THAT(world_.events, Contains("replacing"));
  const std::vector<NodeState> states = node_states(history(), world_.date());
  ASSERT_EQ(states.size(), 1U);
  EXPECT_EQ(states[0].host, "n1");
  EXPECT_EQ(states[0].points, 1);
}

TEST_F(Stragglers, AreOnlyReportedByDefault) {
  EXPECT_FALSE(Settings().replace_stragglers);
  settings_.replace_stragglers = false;
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(causes(), ElementsAre("finished"));
}

TEST_F(Stragglers, ThatAreSlowForAWhileStay) {
  world_.scripts.front().slow_from = 50;
  world_.scripts.front().slow_to = 85;
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(causes(), ElementsAre("finished"));
}

TEST_F(Stragglers, StayWhereNoSpareIsThere) {
  world_.all_hosts.resize(2);
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(causes(), ElementsAre("finished"));
  EXPECT_THAT(world_.said,
              Contains("n1: rank 1 is slow: it stays: no spare can take its place").Times(1));
  EXPECT_THAT(history().leaves, IsEmpty());
}

TEST_F(Stragglers, AreNoReasonToReadTheListOfHostsAtEachLook) {
  world_.all_hosts.resize(2);
  int reads = 0;
  world_.at_list_read = [&] { ++reads; };
  world_.scripts.front().at_second_step = [&] { reads = 0; };
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(reads, 1);  // in more than 15 looks, within a minute
}

TEST_F(Stragglers, AreReplacedByASpareThatComesLater) {
  world_.all_hosts.resize(2);
  world_.last_step = 2000;
  world_.scripts.front().steps = 2000;
  int reads = 0;
  world_.at_list_read = [&] { ++reads; };
  world_.scripts.front().at_second_step = [&] {
    world_.at_list_read = [&] { world_.all_hosts.resize(reads++ == 0 ? 2 : 3, {"n2", 1}); };
    reads = 0;
  };
  world_.scripts.back().steps = 2000;
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(causes(), ElementsAre("replacement", "finished"));
  EXPECT_THAT(nodes_of(1), ElementsAre("n0", "n2"));
}

TEST_F(Stragglers, StayAtAPlaceWhereTheHostBeforeWasSlowToo) {
  world_.scripts = {slow("n1"), slow("n2")};
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(causes(), ElementsAre("replacement", "finished"));
  EXPECT_THAT(world_.said, Contains(HasSubstr("n2: rank 1 is slow: it stays: the host before it "
                                              "was slow at this place too")));
}

TEST_F(Stragglers, StayAfterThreeReplacementsInADay) {
  settings_.nodes = 4;
  world_.all_hosts.push_back({"n6", 1});
  world_.all_hosts.push_back({"n7", 1});
  world_.last_step = 2000;
  world_.scripts = {slow("n0"), slow("n1"), slow("n2"), slow("n3")};
  for (Script& script : world_.scripts) script.steps = 2000;
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(causes(), ElementsAre("replacement", "replacement", "replacement", "finished"));
  EXPECT_THAT(nodes_of(3), ElementsAre("n4", "n5", "n6", "n3"));
  EXPECT_THAT(world_.said, Contains(HasSubstr("3 slow hosts were replaced within 24 hours")));
}

TEST_F(Stragglers, StayWhereARestartCostsMoreThanItGains) {
  world_.scripts.front().start_s = 20;  // the 340 steps that remain gain 17 s
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(causes(), ElementsAre("finished"));
  EXPECT_THAT(world_.said, Contains(HasSubstr("a restart costs more than it gains")));
}

TEST_F(Stragglers, AreNotTakenAgainByASupervisorThatIsStartedAgain) {
  world_.scripts = {slow("n1"), {.steps = 12, .code = 75}};
  EXPECT_EQ(run(), code::stopped);
  world_.scripts = {{.steps = 400}};
  std::swap(world_.all_hosts[0], world_.all_hosts[1]);
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(nodes_of(2), Not(Contains("n1")));
}

}  // namespace
}  // namespace trireme::supervisor::test
