// Attempts on fewer hosts than --nodes.
#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/supervisor/decide/interventions.h"
#include "tests/supervisor/supervision.h"

namespace trireme::supervisor::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Four hosts of two ranks each; tensor size 2.
class Elastic : public Supervision {
 protected:
  Elastic() {
    settings_.nodes = 4;
    settings_.ranks_per_node = 2;
    settings_.min_nodes = 1;
    world_.tensor = 2;
    world_.all_hosts = {{"n0", 2}, {"n1", 2}, {"n2", 2}, {"n3", 2}};
    world_.last_step = 1000;
  }
  /// The host is lost until it is in quarantine; each attempt makes progress.
  void lose(const std::string& host) {
    for (int i = 0; i < 2; ++i)
      world_.scripts.push_back({.steps = 12, .code = 205, .error = "lost", .lost_host = host});
  }
  void finish() { world_.scripts.push_back({.steps = 1000, .code = 0}); }
  std::vector<Index> ranks() const {
    std::vector<Index> all;
    for (const AttemptPlan& plan : world_.plans) all.push_back(plan.ranks);
    return all;
  }
};

TEST_F(Elastic, TakesAsManyHostsAsThereAre) {
  lose("n1");
  lose("n3");
  finish();
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(ranks(), ElementsAre(8, 8, 6, 6, 4));
  const History found = history();
  EXPECT_THAT(found.attempts[2].began.nodes, ElementsAre("n0", "n3", "n2"));
  EXPECT_THAT(found.attempts[4].began.nodes, ElementsAre("n0", "n2"));
  EXPECT_EQ(found.attempts[0].began.layout, "pp1 dp4 tp2");
  EXPECT_EQ(found.attempts[2].began.layout, "pp1 dp3 tp2");
  EXPECT_FALSE(found.attempts[0].began.fewer);
  EXPECT_TRUE(found.attempts[2].began.fewer);
  EXPECT_EQ(world_.plans[2].slots, 2);
  EXPECT_THAT(world_.said, testing::Contains(HasSubstr(
                               "attempt 3: 6 ranks (pp1 dp3 tp2 in place of pp1 dp4 tp2, on 3 of 4 "
                               "hosts: results agree within the layout tolerance, not in bits)")));
}

TEST_F(Elastic, LeavesHostsOutThatNoLegalLayoutNeeds) {
  world_.illegal = {6};  // a batch that three data ranks do not divide
  lose("n1");
  finish();
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(ranks(), ElementsAre(8, 8, 4));
  EXPECT_THAT(history().attempts[2].began.nodes, ElementsAre("n0", "n2"));
  EXPECT_EQ(history().attempts[2].began.spares, 2);
  EXPECT_THAT(world_.said, testing::Contains(HasSubstr("2 slots idle")));
}

TEST_F(Elastic, FillsTheLastHostAsFarAsTheLayoutGoes) {
  settings_.nodes = 2;
  settings_.ranks_per_node = 3;
  world_.all_hosts = {{"n0", 3}, {"n1", 3}};
  lose("n1");
  finish();
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(ranks(), ElementsAre(6, 6, 2));  // of three slots
  EXPECT_EQ(world_.plans[2].idle, 1);
}

TEST_F(Elastic, TakesAnotherLayoutWhereNoDataSizeFits) {
  settings_.nodes = 2;
  settings_.also_layouts = {{"--tp", "8"}, {"--tp", "1"}};
  settings_.ranks_per_node = 4;
  world_.tensor = 8;
  world_.all_hosts = {{"n0", 4}, {"n1", 4}};
  lose("n1");
  finish();
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(ranks(), ElementsAre(8, 8, 4));
  EXPECT_THAT(world_.plans[1].options, IsEmpty());
  EXPECT_THAT(world_.plans[2].options, ElementsAre("--tp", "1"));
  EXPECT_EQ(history().attempts[2].began.layout, "pp1 dp4 tp1");
}

TEST_F(Elastic, TriesTheNextLayoutWhereTheProgramRefusesOneAtItsStart) {
  lose("n1");
  world_.scripts.push_back({.steps = 0, .code = 64, .error = "no memory"});
  finish();
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(ranks(), ElementsAre(8, 8, 6, 4));
  EXPECT_THAT(world_.said,
              testing::Contains("pp1 dp3 tp2 cannot run here: another layout is tried"));
}

TEST_F(Elastic, TriesALayoutAgainThatHasRunBeforeItTakesTheNext) {
  lose("n1");
  world_.scripts.push_back({.steps = 12, .code = 137});
  for (int i = 0; i < 3; ++i)
    world_.scripts.push_back({.steps = 0, .code = 64, .error = "no memory"});
  finish();
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(ranks(), ElementsAre(8, 8, 6, 6, 6, 6, 4));
}

TEST_F(Elastic, EndsWith64WhereTheWholeLayoutCannotRun) {
  world_.scripts = {{.steps = 0, .code = 64}};
  EXPECT_EQ(run(), code::configuration);
  EXPECT_EQ(world_.plans.size(), 1U);
}

TEST_F(Elastic, WaitsAndEndsWith69BelowMinNodes) {
  settings_.min_nodes = 4;
  settings_.nodes = 5;
  settings_.wait_nodes_s = 20;
  world_.all_hosts.pop_back();
  EXPECT_EQ(run(), code::no_nodes);
  EXPECT_NEAR(world_.time, 120, 1);
  EXPECT_THAT(world_.plans, IsEmpty());
  EXPECT_THAT(world_.said.back(), HasSubstr("4 are needed, 3 are listed"));
}

TEST_F(Elastic, IsRefusedBeforeAnythingStartsWhereItCannotBe) {
  world_.answers_layouts = false;
  EXPECT_EQ(run(), code::configuration);
  EXPECT_THAT(world_.said.back(), HasSubstr("train_gpt gives no answer to --check-layout 8"));
  world_.answers_layouts = true;
  world_.illegal = {8};
  EXPECT_EQ(run(), code::configuration);
  EXPECT_THAT(world_.said.back(), HasSubstr("cannot run on 8 ranks: 8 ranks do not fit"));
  world_.illegal = {2};
  EXPECT_EQ(run(), code::configuration);
  EXPECT_THAT(
      world_.said.back(),
      HasSubstr("--min-nodes 1: no number of ranks up to 2 is legal; give more --min-nodes, "
                "or --also-layout: 2 ranks do not fit"));
  settings_.also_layouts = {{"--tp", "9"}};
  EXPECT_EQ(run(), code::configuration);
  EXPECT_THAT(world_.said.back(),
              HasSubstr("--also-layout \"--tp 9\": no number of ranks up to 8"));
  EXPECT_THAT(world_.plans, IsEmpty());
}

TEST_F(Elastic, EndsWith64AndTheProgramsSentenceWhereNoLayoutOfTheHostsCanRun) {
  lose("n1");
  lose("n2");
  lose("n3");
  world_.scripts.resize(2);
  for (const char* why : {"6 ranks need 90 GiB", "4 ranks need 130 GiB", "2 ranks need 250 GiB"})
    world_.scripts.push_back({.steps = 0, .code = 64, .error = why});
  EXPECT_EQ(run(), code::configuration);
  EXPECT_THAT(ranks(), ElementsAre(8, 8, 6, 4, 2));
  EXPECT_THAT(world_.said.back(),
              HasSubstr("no layout can run on the hosts at hand: 2 ranks need 250 GiB"));
}

TEST_F(Elastic, StopsWhileTheProgramIsAskedForLayouts) {
  world_.layouts_s = 120;
  world_.signals = {SIGTERM};
  EXPECT_EQ(run(), code::stopped);
  EXPECT_LT(world_.time, 101);
  EXPECT_EQ(world_.pending, 0);
  EXPECT_THAT(world_.plans, IsEmpty());
}

TEST_F(Elastic, WaitsForTheAnswersOfTheProgram) {
  world_.layouts_s = 7;
  lose("n1");
  finish();
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(ranks(), ElementsAre(8, 8, 6));
}

TEST(Growth, IsWorthARestartWhereItGainsThreeTimesItsCost) {
  Growth growth{.ranks_now = 2, .ranks = 4, .remaining_s = 100, .save_s = 20, .start_s = 13};
  EXPECT_TRUE(is_worth_a_restart(growth));  // 100 > 99
  growth.start_s = 14;
  EXPECT_FALSE(is_worth_a_restart(growth));
  growth.ranks = 6;
  EXPECT_TRUE(is_worth_a_restart(growth));  // 200 > 102
  growth.ranks = 2;
  growth.save_s = growth.start_s = 0;
  EXPECT_FALSE(is_worth_a_restart(growth));
}

/// Three of four hosts are there, and grow from the second step on.
class Grows : public Elastic {
 protected:
  Grows() {
    settings_.grow = true;
    settings_.grow_interval_s = 50;
    world_.all_hosts.pop_back();
    world_.scripts = {{.steps = 900, .at_second_step = [this] { come_back(); }}};
  }
  void come_back() { world_.all_hosts.push_back({"n3", 2}); }
};

TEST_F(Grows, WhenHostsComeBackAfterTheInterval) {
  finish();
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(ranks(), ElementsAre(6, 8));
  EXPECT_THAT(causes(), ElementsAre("growth", "finished"));
  EXPECT_NEAR(world_.started[1] - world_.started[0], 50, 1);
  EXPECT_EQ(history().attempts[0].ended->durable, history().attempts[0].ended->last_step);
  EXPECT_THAT(world_.said,
              testing::Contains(HasSubstr("to continue as pp1 dp4 tp2 in place of pp1 dp3")));
  EXPECT_EQ(goodput(history()).failures, 0);
}

/// Two hosts, and then three: the program was not asked for them yet, and takes long to answer.
class GrowsSlowly : public Grows {
 protected:
  GrowsSlowly() {
    world_.all_hosts = {{"n0", 2}, {"n1", 2}};
    world_.scripts.front().at_second_step = [this] {
      come_back();
      world_.layouts_s = 30;
    };
  }
};

TEST_F(GrowsSlowly, WhileTheJobTrains) {
  finish();
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(ranks(), ElementsAre(4, 6));
  EXPECT_NEAR(world_.started[1] - world_.started[0], 80, 1);
}

TEST_F(GrowsSlowly, AndTheJobIsWatchedMeanwhile) {
  settings_.hang_s = 5;
  settings_.max_restarts = 0;
  world_.scripts.front().steps = 550;  // 5 s after the interval
  world_.scripts.front().hangs = true;
  EXPECT_EQ(run(), code::no_help);
  EXPECT_THAT(causes(), ElementsAre("hang"));
  EXPECT_NEAR(history().attempts[0].ended->wall_s, 60, 0.5);
  EXPECT_EQ(world_.pending, 0);
}

TEST_F(GrowsSlowly, AndARequestToStopIsMetMeanwhile) {
  world_.scripts.front().signal_at_step = 550;
  EXPECT_EQ(run(), code::stopped);
  EXPECT_NEAR(history().attempts[0].ended->wall_s, 55, 0.5);
}

TEST_F(Grows, NotForAShortRest) {
  world_.scripts.front().start_s = 4;
  world_.last_step = 600;  // at the interval 46 s are done, and 14 remain
  finish();
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(causes().front(), "finished");
}

TEST_F(Grows, OnlyWhereItIsAskedTo) {
  settings_.grow = false;
  finish();
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(ranks().front(), 6);
  EXPECT_EQ(causes().front(), "ended_early");
}

TEST_F(Grows, CountingNeitherAsAFailureNorAsARestart) {
  settings_.max_restarts = 1;
  world_.scripts.push_back({.steps = 12, .code = 137});
  finish();
  EXPECT_EQ(run(), 0);
}

TEST_F(Grows, UnlessAUserStopsItMeanwhile) {
  settings_.grace_s = 30;
  struct Stopping : FakeWorld {
    void request_stop() override {
      FakeWorld::request_stop();
      signals.push_back(SIGTERM);
    }
  } world;
  world.scripts = {{.steps = 501, .hangs = true, .obeys = false}};  // it is saving
  world.scripts.front().at_second_step = [&] { world.all_hosts.push_back({"n3", 2}); };
  world.all_hosts = world_.all_hosts;
  world.tensor = 2;
  Supervisor supervisor(world, world, settings_, {});
  EXPECT_EQ(supervisor.run(), code::stopped);
  EXPECT_EQ(world.asked, 1);  // a second request would end the job at once
  EXPECT_EQ(world.plans.size(), 1U);
}

TEST_F(Elastic, AsksNothingWhereAllNodesAreNeeded) {
  settings_.min_nodes = 4;
  world_.answers_layouts = false;
  finish();
  EXPECT_EQ(run(), 0);
  EXPECT_EQ(history().attempts[0].began.layout, "");
}

}  // namespace
}  // namespace trireme::supervisor::test
