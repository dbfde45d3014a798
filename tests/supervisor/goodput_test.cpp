// Where the time of a run went, and what it cost.
#include "launch/supervisor/records/goodput.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"

namespace trireme::supervisor::test {
namespace {

using testing::HasSubstr;

TEST(StepTimes, CountStepsAsUsefulOnceTheyAreDurable) {
  StepTimes times;
  for (Index step = 1; step <= 5; ++step) times.step(step, static_cast<double>(step));
  EXPECT_EQ(times.open_s(), 15);
  times.durable(3);
  EXPECT_EQ(times.durable_s(), 6);
  EXPECT_EQ(times.open_s(), 9);
  times.durable(3);
  EXPECT_EQ(times.durable_s(), 6);
}

History two_attempts() {
  History history;
  AttemptBegan began;
  began.attempt = 1;
  began.ranks = 8;
  began.spares = 2;
  history.add(began);
  AttemptEnded ended;
  ended.attempt = 1;
  ended.cause = "killed";
  ended.last_step = 17;
  ended.durable = 10;
  ended.blame = {{"n1", 1, ""}};
  ended.start_s = 100;
  ended.useful_s = 600;
  ended.lost_s = 200;
  ended.stall_s = 100;
  ended.wall_s = 1000;
  history.add(ended);
  began.attempt = 2;
  began.waited_s = 60;
  history.add(began);
  ended = {};
  ended.attempt = 2;
  ended.cause = "finished";
  ended.start_s = 40;
  ended.useful_s = 2500;
  ended.wall_s = 2540;
  history.add(ended);
  return history;
}

TEST(Goodput, NamesTheLayoutsWhereTheyChanged) {
  History history = two_attempts();
  const auto text = [&] { return to_text(goodput(history), {}); };
  EXPECT_THAT(text(), testing::Not(HasSubstr("layout")));
  history.attempts[0].began.layout = "pp1 dp4 tp2";
  EXPECT_THAT(text(), HasSubstr("  layout pp1 dp4 tp2: 1000.0 s\n"));
  EXPECT_THAT(text(), testing::Not(HasSubstr("not in bits")));
  history.attempts[1].began.layout = "pp1 dp2 tp2";
  EXPECT_THAT(text(), HasSubstr("agree within the layout tolerance, not in bits"));
}

TEST(Goodput, AddsUpToTheWholeTime) {
  const Goodput found = goodput(two_attempts());
  EXPECT_EQ(found.wall_s, 3600);
  EXPECT_EQ(found.useful_s + found.lost_s + found.start_s + found.stall_s + found.waited_s, 3600);
  EXPECT_NEAR(found.ratio(), 3100.0 / 3600, 1e-12);
  EXPECT_EQ(found.failures, 1);
  EXPECT_EQ(found.causes.at("killed").lost_steps, 7);
  EXPECT_EQ(found.failures_of_host.at("n1"), 1);
}

TEST(Goodput, SaysWhatFailuresLost) {
  const std::string text = to_text(goodput(two_attempts()), {});
  EXPECT_THAT(text, HasSubstr("2 attempts, 1 failure, "));
  EXPECT_THAT(text, HasSubstr("  killed: 1 failure, 7 steps done again, 200.0 s\n"));
  EXPECT_THAT(text, HasSubstr("  n1: blamed for 1 failure\n"));
}

TEST(Goodput, CostsWhatRanksAndSparesHold) {
  const Goodput found = goodput(two_attempts());
  EXPECT_NEAR(found.gpu.all, 10, 1e-9);
  EXPECT_NEAR(found.gpu.lost, 10 * 300.0 / 3600, 1e-9);  // steps, the wait, the second start
  EXPECT_THAT(to_text(found, parse_price("H100=2.5")),
              HasSubstr("cost at 2.5 an hour of a H100: 25.00; lost to failures 2.08"));
  EXPECT_EQ(to_text(found, {}).find("cost"), std::string::npos);
}

TEST(Goodput, CountsTheGpusThatAnyAttemptHasNamed) {
  History history = two_attempts();
  EXPECT_THAT(to_text(goodput(history), {}), HasSubstr("one GPU a rank is assumed"));
  history.attempts[1].ended->gpus_per_rank = 0.5;  // two ranks share one
  const Goodput found = goodput(history);
  EXPECT_NEAR(found.gpu.all, 5, 1e-9);
  EXPECT_THAT(to_text(found, {}), HasSubstr("GPU-hours (spares included): 5.000"));
}

TEST(Goodput, OfCpusCostsWhatNodesHold) {
  History history = two_attempts();
  for (Attempt& attempt : history.attempts) {
    attempt.began.nodes = {"n0", "n1", "n2", "n3"};  // two ranks each, and one host in reserve
    attempt.ended->gpus_per_rank = 0;
  }
  const Goodput found = goodput(history);
  EXPECT_NEAR(found.node.all, 5, 1e-9);
  EXPECT_THAT(to_text(found, parse_price("node=2")),
              HasSubstr("node-hours (no GPU, spares included): 5.000; lost to failures 0.417\n"
                        "cost at 2 an hour of a node: 10.00; lost to failures 0.83"));
  EXPECT_THAT(to_text(found, parse_price("2")), HasSubstr("cost: no GPU was used"));
}

TEST(Goodput, OfARunWithoutAttemptsIsNone) {
  EXPECT_EQ(goodput({}).ratio(), 0);
  EXPECT_THAT(to_text(goodput({}), {}), HasSubstr("0 attempts"));
}

TEST(Price, IsRefusedUnlessItIsAnAmount) {
  for (const char* text : {"", "x", "H100=", "-1", "0", "2.5x", "nan"})
    EXPECT_THROW(parse_price(text), Error) << text;
  EXPECT_EQ(parse_price("2").amount, 2);
}

}  // namespace
}  // namespace trireme::supervisor::test
