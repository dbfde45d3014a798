// A host with a sign of the kind "leave" is left while a spare is there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/supervisor/records/goodput.h"
#include "tests/supervisor/supervision.h"

namespace trireme::supervisor::test {
namespace {

using observe::HealthAction;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

class Leaves : public Supervision {
 protected:
  Leaves() {
    settings_.nodes = 2;
    settings_.spares = 1;
    settings_.max_restarts = 0;  // it counts as no restart
    world_.all_hosts = {{"n0", 1}, {"n1", 1}, {"n2", 1}};
    world_.last_step = 100;
    world_.scripts = {
        {.steps = 100, .signs = {{"n1", HealthAction::leave, "GPU 0: remap pending"}}},
        {.steps = 100}};
  }
  std::vector<std::string> nodes_of(std::size_t attempt) const {
    return history().attempts[attempt].began.nodes;
  }
};

TEST_F(Leaves, AHostForASpare) {
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(causes(), ElementsAre("replacement", "finished"));
  EXPECT_THAT(nodes_of(1), ElementsAre("n0", "n2"));
  const AttemptEnded ended = *history().attempts[0].ended;
  EXPECT_EQ(ended.durable, ended.last_step);
  EXPECT_LT(ended.last_step, 50);
  EXPECT_THAT(world_.said, Contains(HasSubstr("n1: GPU 0: remap pending: asks the job to save")));
  EXPECT_EQ(goodput(history()).failures, 0);
  const std::vector<NodeState> states = node_states(history(), world_.date());
  ASSERT_EQ(states.size(), 1U);
  EXPECT_EQ(states[0].points, 0);
}

TEST_F(Leaves, NoHostWhereNoOtherIsThere) {
  world_.all_hosts.pop_back();
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(causes(), ElementsAre("finished"));
}

TEST_F(Leaves, NoHostForASignThatIsOnlyReported) {
  world_.scripts.front().signs[0].action = HealthAction::report;
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(causes(), ElementsAre("finished"));
}

TEST_F(Leaves, AHostOnceAndTakesItAgainWhenOthersAreLost) {
  settings_.max_restarts = 10;
  const GpuSign sign = {"n1", HealthAction::leave, "GPU 0: remap pending"};
  world_.scripts = {{.steps = 100, .signs = {sign}},
                    {.steps = 25, .code = 205, .lost_host = "n2"},
                    {.steps = 100, .signs = {sign}}};
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(causes(), ElementsAre("replacement", "node_lost", "finished"));
  EXPECT_THAT(nodes_of(2), ElementsAre("n0", "n1"));
}

TEST_F(Leaves, AHostAlsoAfterTheSupervisorWasStartedAgain) {
  world_.scripts.pop_back();
  world_.scripts.push_back({.steps = 12, .code = 75});
  EXPECT_EQ(run(), code::stopped);
  world_.scripts = {{.steps = 100}};
  world_.all_hosts = {{"n1", 1}, {"n0", 1}, {"n2", 1}};
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(nodes_of(2), ElementsAre("n0", "n2"));
}

TEST_F(Leaves, AHostUntilItIsReleased) {
  world_.scripts.pop_back();
  world_.scripts.push_back({.steps = 12, .code = 75});
  EXPECT_EQ(run(), code::stopped);
  world_.all_hosts = {{"n0", 1}, {"n1", 1}};
  world_.releases = {"n1"};
  world_.scripts = {{.steps = 100}};
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(hosts_to_leave(history(), world_.date()), testing::IsEmpty());
}

}  // namespace
}  // namespace trireme::supervisor::test
