// The preflight of hosts before attempts use them, and the long one that ends a quarantine.
#include <csignal>

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

class Checks : public Supervision {
 protected:
  Checks() {
    settings_.nodes = 2;
    settings_.has_hosts = true;
    world_.all_hosts = {{"n0", 1}, {"n1", 1}, {"n2", 1}};
    world_.last_step = 1000;
  }
  void lose(const std::string& host) {
    world_.scripts.push_back({.steps = 12, .code = 205, .error = "lost", .lost_host = host});
  }
  void finish() { world_.scripts.push_back({.steps = 1000, .code = 0}); }
  std::vector<std::string> nodes_of(std::size_t attempt) const {
    return history().attempts[attempt].began.nodes;
  }
};

TEST_F(Checks, AreOfSparesWithTheOthersAndAgainOfHostsThatReturn) {
  lose("n1");
  lose("n0");
  world_.scripts.push_back({.steps = 12, .code = 137});
  finish();
  EXPECT_EQ(run(), 0);
  // The third attempt takes one of those that were lost, as there is no other. It has passed, so
  // that the fourth needs no check.
  EXPECT_THAT(world_.checked, ElementsAre(ElementsAre("n0", "n1", "n2"), ElementsAre("n0")));
}

TEST_F(Checks, AreMadeAgainAfterAQuarantine) {
  world_.all_hosts.pop_back();
  settings_.quarantine_s = 300;
  settings_.wait_nodes_s = 1000;
  lose("n0");
  lose("n0");
  finish();
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(world_.checked,
              ElementsAre(ElementsAre("n0", "n1"), ElementsAre("n0"), ElementsAre("n0")));
}

TEST_F(Checks, ThatFailLeaveTheHostOutAndShowIt) {
  world_.unfit = {"n0"};
  finish();
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(nodes_of(0), ElementsAre("n1", "n2"));
  ASSERT_EQ(world_.shown_unfit.size(), 1U);
  EXPECT_EQ(world_.shown_unfit[0].host, "n0");
  EXPECT_EQ(world_.shown_unfit[0].why, "it is broken");
}

TEST_F(Checks, OfASpareThatFailDoNotHoldTheAttemptUp) {
  world_.unfit = {"n2"};
  finish();
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(nodes_of(0), ElementsAre("n0", "n1"));
  EXPECT_EQ(world_.checked.size(), 1U);
}

TEST_F(Checks, ThatCannotBeMadeAreSaidAndMadeBeforeTheNextAttempt) {
  world_.not_checked = "mpirun is gone";
  world_.unfit = {"n0"};  // whatever is found then does not count
  world_.scripts.push_back({.steps = 12, .code = 137, .at_second_step = [this] {
                              world_.not_checked.clear();
                              world_.unfit.clear();
                            }});
  finish();
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(nodes_of(0), ElementsAre("n0", "n1"));
  EXPECT_THAT(world_.said, Contains("hosts are used without a preflight: mpirun is gone"));
  EXPECT_THAT(world_.events, Contains("preflight_not_made"));
  EXPECT_EQ(world_.checked.size(), 2U);
}

TEST_F(Checks, AreOverAtOnceWhenTheRunIsToStop) {
  world_.preflight_s = 300;
  world_.signals = {SIGTERM};
  EXPECT_EQ(run(), code::stopped);
  EXPECT_LT(world_.time, 101);
  EXPECT_EQ(world_.pending, 0);  // its process is ended
  EXPECT_THAT(world_.plans, IsEmpty());
  EXPECT_THAT(world_.said.back(), HasSubstr("stopped before an attempt began"));
}

TEST_F(Checks, AreOverAtTheTimeLimit) {
  world_.preflight_s = 300;
  settings_.time_limit_s = 20;
  EXPECT_EQ(run(), code::stopped);
  EXPECT_NEAR(world_.time, 120, 1);
}

TEST_F(Checks, ThatAreLongEndAQuarantineWhereHostsAreTooFew) {
  world_.all_hosts.pop_back();
  world_.checks_long = true;
  lose("n0");
  lose("n0");
  finish();
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(world_.checked_long, ElementsAre(ElementsAre("n0")));
  EXPECT_THAT(nodes_of(2), ElementsAre("n0", "n1"));
  EXPECT_THAT(world_.said, Contains("n0 passes the long preflight: its quarantine is lifted"));
  EXPECT_THAT(world_.events, Contains("quarantine_lifted"));
  EXPECT_EQ(history().releases.size(), 1U);  // also for a supervisor that is started again
}

TEST_F(Checks, ThatAreLongAreNotMadeWhereSparesAreLeft) {
  world_.checks_long = true;
  lose("n0");
  lose("n2");
  finish();
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(world_.checked_long, IsEmpty());
}

TEST_F(Checks, ThatAreLongAndFailLeaveTheHostInQuarantineAndAreMadeOnce) {
  world_.all_hosts.pop_back();
  world_.checks_long = true;
  world_.unfit_in_long = {"n0"};
  settings_.wait_nodes_s = 20;
  lose("n0");
  lose("n0");
  EXPECT_EQ(run(), code::no_nodes);
  EXPECT_EQ(world_.checked_long.size(), 1U);
  EXPECT_THAT(world_.said, Contains("n0 stays in quarantine: it is broken"));
  EXPECT_THAT(world_.said.back(), HasSubstr("1 are in quarantine"));
}

TEST_F(Checks, ThatAreLongAndCannotBeMadeAreMadeAgainEachMinute) {
  world_.all_hosts.pop_back();
  world_.checks_long = true;
  settings_.wait_nodes_s = 150;
  lose("n0");
  world_.scripts.push_back({.steps = 12, .code = 205, .lost_host = "n0", .at_second_step = [this] {
                              world_.not_checked = "mpirun is gone";
                            }});
  EXPECT_EQ(run(), code::no_nodes);
  EXPECT_EQ(world_.checked_long.size(), 3U);
  EXPECT_THAT(world_.said,
              Contains("hosts stay in quarantine without a long preflight: mpirun is gone"));
  EXPECT_THAT(world_.events, Contains("preflight_not_made"));
}

TEST_F(Checks, ThatAreLongAreNotMadeWhereTheyCannotHelp) {
  settings_.nodes = 4;
  settings_.min_nodes = 3;
  world_.all_hosts = {{"n0", 1}, {"n1", 1}, {"n2", 1}};
  world_.checks_long = true;
  lose("n0");
  world_.scripts.push_back({.steps = 12, .code = 205, .lost_host = "n0", .at_second_step = [this] {
                              world_.all_hosts.pop_back();
                            }});
  EXPECT_EQ(run(), code::no_nodes);
  EXPECT_THAT(world_.checked_long, IsEmpty());
}

TEST_F(Checks, ForgetAReleaseOnlyOnceTheLedgerHasIt) {
  world_.unfit = {"n0", "n1"};
  EXPECT_EQ(run(), code::no_nodes);
  world_.unfit.clear();
  world_.releases = {"n0"};
  finish();
  EXPECT_EQ(run(), 0);
  EXPECT_TRUE(world_.kept_releases);
  EXPECT_THAT(world_.releases, IsEmpty());
}

}  // namespace
}  // namespace trireme::supervisor::test
