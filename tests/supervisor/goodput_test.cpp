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
  ended.cause = Cause::killed;
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
  ended.cause = Cause::finished;
  ended.start_s = 40;
  ended.useful_s = 2500;
  ended.wall_s = 2540;
  history.add(ended);
  return history;
}

TEST(Goodput, CountsStepsThatTheNextAttemptFindsInMemoryAsDone) {
  History history = two_attempts();  // the first: steps to 17, durable 10, 200 s for the 7 between
  history.attempts[1].started = {15, "memory"};
  const Goodput found = goodput(history);
  EXPECT_EQ(found.causes.at(Cause::killed).lost_steps, 2);
  EXPECT_DOUBLE_EQ(found.lost_s, 200.0 * 2 / 7);
  EXPECT_DOUBLE_EQ(found.useful_s, 600 + 200.0 * 5 / 7 + 2500);
  EXPECT_EQ(found.from_memory, 1);
  EXPECT_THAT(to_text(found, {}), HasSubstr("killed: 1 failure, 2 steps done again"));
  EXPECT_THAT(to_text(found, {}), HasSubstr("  1 attempt started from a snapshot in memory\n"));
  history.attempts[1].started = {15, "local"};
  EXPECT_EQ(goodput(history).from_memory, 0);
  EXPECT_DOUBLE_EQ(goodput(history).lost_s, 200.0 * 2 / 7);
  EXPECT_THAT(to_text(goodput(history), {}),
              HasSubstr("  1 attempt started from a snapshot on disks of the hosts\n"));
  history.attempts[1].started = {10, "durable"};
  EXPECT_EQ(goodput(history).from_local, 0);
  EXPECT_EQ(goodput(history).causes.at(Cause::killed).lost_steps, 7);
  EXPECT_EQ(goodput(history).lost_s, 200);
  EXPECT_EQ(goodput(history).from_memory, 0);
  history.attempts[1].started = {5, "durable"};  // it went back
  EXPECT_EQ(goodput(history).causes.at(Cause::killed).lost_steps, 12);
  EXPECT_EQ(goodput(history).lost_s, 200);
}

TEST(Goodput, CountsRecoveredStepsAsLostWhenALaterAttemptRepeatsThem) {
  History history = two_attempts();
  history.attempts[1].started = {15, "memory"};
  history.attempts[1].ended->cause = Cause::node_lost;
  history.attempts[1].ended->first_step = 16;
  history.attempts[1].ended->last_step = 18;
  history.attempts[1].ended->durable = 10;
  AttemptBegan third;
  third.attempt = 3;
  history.add(third);
  history.attempts[2].started = {10, "durable"};
  const Goodput found = goodput(history);
  EXPECT_EQ(found.causes.at(Cause::killed).lost_steps, 2);
  EXPECT_EQ(found.causes.at(Cause::node_lost).lost_steps, 8);
  EXPECT_EQ(found.lost_s, 200);
}

TEST(Goodput, NamesTheSpikesOfTheLoss) {
  History history = two_attempts();
  history.add(LossSpike{2, 0, 600, 7.5});
  EXPECT_THAT(to_text(goodput(history), {}), HasSubstr("  attempt 2: loss spike to step 600\n"));
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

TEST(Goodput, SaysWhichIntervalBetweenSavesWasChosen) {
  History history = two_attempts();
  const auto text = [&] { return to_text(goodput(history), {}); };
  const auto json = [&] { return to_text(to_json(goodput(history), {})); };
  EXPECT_THAT(text(), testing::Not(HasSubstr("--save-interval auto")));
  EXPECT_THAT(json(), testing::Not(HasSubstr("save_interval_auto")));
  history.attempts[0].began.saves = SaveRule{.seconds = 600};
  EXPECT_THAT(text(), HasSubstr("\n--save-interval auto: every 600 s in attempt 1\n"));
  history.attempts[1].began.saves = SaveRule{.steps = 14};
  EXPECT_THAT(text(), HasSubstr("\n--save-interval auto: every 14 steps in attempt 2\n"));
  EXPECT_THAT(json(), HasSubstr(R"("save_interval_auto":{"attempt":2,"steps":14,"seconds":null})"));
}

TEST(Goodput, AddsUpToTheWholeTime) {
  const Goodput found = goodput(two_attempts());
  EXPECT_EQ(found.wall_s, 3600);
  EXPECT_EQ(found.useful_s + found.lost_s + found.start_s + found.stall_s + found.detect_s +
                found.waited_s,
            3600);
  EXPECT_NEAR(found.ratio(), 3100.0 / 3600, 1e-12);
  EXPECT_EQ(found.failures, 1);
  EXPECT_EQ(found.causes.at(Cause::killed).lost_steps, 7);
  EXPECT_EQ(found.failures_of_host.at("n1"), 1);
}

TEST(Goodput, SaysWhatFailuresLost) {
  const std::string text = to_text(goodput(two_attempts()), {});
  EXPECT_THAT(text, HasSubstr("2 attempts, 1 failure, "));
  EXPECT_THAT(text, HasSubstr("  killed: 1 failure, 7 steps done again, 300.0 s lost\n"));
  EXPECT_THAT(text, HasSubstr("  n1: blamed for 1 failure\n"));
}

TEST(Goodput, CountsTheTimeUntilAHangIsSeenOnceAndOfTheHang) {
  History history = two_attempts();
  history.attempts[0].ended->cause = Cause::hang;
  history.attempts[0].ended->detect_s = 70;  // of the 100 s between steps
  const Goodput found = goodput(history);
  EXPECT_EQ(found.stall_s, 30);
  EXPECT_EQ(found.useful_s + found.lost_s + found.start_s + found.stall_s + found.detect_s +
                found.waited_s,
            3600);
  EXPECT_EQ(found.causes.at(Cause::hang).lost_s, 200 + 70 + 60 + 40);
  EXPECT_NEAR(found.gpu.lost, 10 * found.causes.at(Cause::hang).lost_s / 3600, 1e-9);
  EXPECT_THAT(to_text(found, {}), testing::ContainsRegex("waiting for hangs to be seen +70.0 s"));
  EXPECT_THAT(to_text(to_json(found, {})), HasSubstr("\"stall_s\":30.0"));
}

TEST(Goodput, HasALineOfEachAttemptWithItsRemedy) {
  History history = two_attempts();
  history.attempts[0].ended->at = 1795867200;
  history.attempts[0].ended->error = "signal 9 (SIGKILL) ended rank 2";
  AttemptBegan third;
  third.attempt = 3;
  history.add(third);
  const std::string text = to_text(goodput(history).lines, 10);
  EXPECT_THAT(text, testing::ContainsRegex(
                        "2026-11-2[0-9] ..:..:..  attempt 1    killed +lost 7 steps, 300.0 s  "
                        "signal 9 .SIGKILL. ended rank 2\n"));
  EXPECT_THAT(text,
              testing::ContainsRegex("attempt 3    runs\n.*attempt 2    finished\n.*attempt 1 "));
  EXPECT_THAT(text, HasSubstr("\nto do after killed: see who sends signals"));
  EXPECT_THAT(to_text(goodput(history).lines, 1), HasSubstr("\n2 earlier attempts"));
  EXPECT_THAT(to_text(to_json(goodput(history), {})),
              HasSubstr(R"("list":[{"attempt":1,"at":"2026-11-28T12:00:00Z","cause":"killed")"));
}

TEST(Remedies, AreThereForAllCausesThatAPersonCanDoSomethingAbout) {
  for (int i = 0; i < static_cast<int>(Cause::unknown); ++i) {
    const auto cause = static_cast<Cause>(i);
    const bool has_one = is_failure(cause) && cause != Cause::supervisor_lost;
    EXPECT_EQ(remedy_for(cause) != "", has_one) << name(cause);
  }
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
  EXPECT_THAT(to_text(found, {}), HasSubstr("GPU-hours: 5.000, of them 1.000 of spares; lost"));
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
              HasSubstr("node-hours (no GPU): 5.000, of them 1.000 of spares; lost to failures "
                        "0.417\n"
                        "cost at 2 an hour of a node: 10.00; lost to failures 0.83"));
  EXPECT_THAT(to_text(found, parse_price("2")), HasSubstr("cost: no GPU was used"));
}

TEST(Goodput, ShowsTheTimeWithoutHostsApart) {
  History history = two_attempts();
  EXPECT_THAT(to_text(goodput(history), {}), testing::Not(HasSubstr("of it")));
  history.attempts[1].began.no_hosts_s = 50;
  history.attempts[1].began.preflight_s = 4;
  const Goodput found = goodput(history);
  EXPECT_NEAR(found.ratio_with_hosts(), 3100.0 / 3550, 1e-12);
  const std::string text = to_text(found, {});
  EXPECT_THAT(text, testing::ContainsRegex("of it: preflight +4.0 s +0.1 %\n"));
  EXPECT_THAT(text, HasSubstr("goodput without that: 87.3 %\n"));
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
