// The hosts of an attempt, and the step that it starts from.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/supervisor/supervision.h"

namespace trireme::supervisor::test {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Picking = Supervision;

TEST_F(Picking, WaitsForHostsWhereItIsAskedTo) {
  settings_.nodes = 2;
  settings_.wait_nodes_s = 50;
  world_.all_hosts = {{"n0", 1}};
  EXPECT_EQ(run(), code::no_nodes);
  EXPECT_NEAR(world_.time, 150, 1);
  EXPECT_THAT(world_.plans, IsEmpty());
  EXPECT_EQ(std::count(world_.said.begin(), world_.said.end(),
                       "waits up to 50 s for healthy hosts: 2 needed, 1 listed"),
            1);
}

TEST_F(Picking, ReadsAListOfHostsAgainThatIsHalfWritten) {
  settings_.has_hosts = true;
  world_.all_hosts = {{"n0", 1}};
  world_.last_step = 5;
  world_.scripts = {{.steps = 5, .code = 0}};
  world_.unreadable_lists = 3;
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(std::count(world_.said.begin(), world_.said.end(), "hosts: line 2 is cut"), 1);
}

TEST_F(Picking, EndsWhereTheListOfHostsStaysUnreadable) {
  settings_.has_hosts = true;
  world_.unreadable_lists = 1000;
  EXPECT_EQ(run(), code::no_nodes);
  EXPECT_NEAR(world_.time, 110, 1);
  EXPECT_THAT(world_.said.back(), HasSubstr("hosts: line 2 is cut"));
}

TEST_F(Picking, DoesNotTrainOnItsOwnMachineWhereTheListOfHostsIsEmpty) {
  settings_.has_hosts = true;  // as of an MPIJob none of whose workers runs
  settings_.wait_nodes_s = 20;
  EXPECT_EQ(run(), code::no_nodes);
  EXPECT_THAT(world_.plans, IsEmpty());
  EXPECT_THAT(world_.said.back(), HasSubstr("1 are needed, 0 are listed"));
}

TEST_F(Picking, UsesNoHostThatFailsThePreflight) {
  settings_.nodes = 1;
  settings_.spares = 1;
  world_.all_hosts = {{"n0", 1}, {"n1", 1}};
  world_.unfit = {"n0"};
  world_.last_step = 5;
  world_.scripts = {{.steps = 5, .code = 0}};
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(history().attempts[0].began.nodes, ElementsAre("n1"));
  EXPECT_THAT(world_.events, Contains("preflight_failed"));
  EXPECT_THAT(world_.said, Contains("n0 does not pass the preflight: it is broken"));
}

TEST_F(Picking, RecordsTheTimeWithoutHostsAndThatOfThePreflight) {
  settings_.nodes = 1;
  settings_.has_hosts = true;
  settings_.wait_nodes_s = 50;
  world_.all_hosts = {{"n0", 1}};
  world_.unreadable_lists = 3;
  world_.preflight_s = 4;
  world_.last_step = 5;
  world_.scripts = {{.steps = 2, .code = 1}, {.steps = 5, .code = 0}};
  EXPECT_EQ(run(), 0);
  const std::vector<Attempt> attempts = history().attempts;
  ASSERT_EQ(attempts.size(), 2U);
  EXPECT_NEAR(attempts[0].began.no_hosts_s, 3, 0.01);
  // Its end is seen at the next look.
  EXPECT_NEAR(attempts[0].began.preflight_s, 4, 0.06);
  EXPECT_NEAR(attempts[0].began.waited_s, 7, 0.06);
  EXPECT_EQ(attempts[1].began.no_hosts_s, 0);
  EXPECT_EQ(attempts[1].began.preflight_s, 0);
}

TEST_F(Picking, GoesBackToTheOnlySavedStepAsASnapshotInMemoryMayBeNewer) {
  world_.last_step = 30;
  world_.scripts = {{.steps = 15, .code = 65}, {.steps = 20, .code = 0}};
  EXPECT_EQ(run(), 0);
  ASSERT_EQ(world_.plans.size(), 2U);
  EXPECT_EQ(world_.plans[1].step, 10);
}

}  // namespace
}  // namespace trireme::supervisor::test
