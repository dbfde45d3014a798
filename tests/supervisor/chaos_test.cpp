// What `trireme chaos` draws, expects and counts.
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/chaos/trials.h"
#include "tests/support/message_of.h"

namespace trireme::supervisor::test {
namespace {

using testing::HasSubstr;

TEST(FaultDeck, HasEachKindOnceBeforeAnyAgain) {
  FaultDeck deck({"kill", "segv", "mpirun"}, 7);
  for (int round = 0; round < 5; ++round) {
    std::set<std::string> drawn;
    for (int i = 0; i < 3; ++i) {
      const FaultRequest request = deck.next("token");
      EXPECT_EQ(request.token, "token");
      EXPECT_GE(request.draw, 0);
      drawn.insert(request.kind);
    }
    EXPECT_EQ(drawn.size(), 3U);
  }
}

TEST(FaultDeck, IsTheSameForTheSameSeed) {
  FaultDeck one({"kill", "segv", "mpirun"}, 7), same({"kill", "segv", "mpirun"}, 7);
  for (int i = 0; i < 20; ++i) {
    const FaultRequest a = one.next(""), b = same.next("");
    EXPECT_EQ(a.kind, b.kind);
    EXPECT_EQ(a.draw, b.draw);
  }
}

TEST(FaultDeck, SaysHowManyFaultsTheSparesAreEnoughFor) {
  constexpr Index endless = Index{1} << 62;
  const FaultDeck processes({"kill", "segv"}, 7), hosts({"node", "link"}, 7);
  EXPECT_EQ(faults_with_spares(processes, endless, 0), endless);
  EXPECT_EQ(faults_with_spares(hosts, endless, 5), 5);
  EXPECT_EQ(faults_with_spares(hosts, 4, 5), 4);
  const FaultDeck both({"node", "kill"}, 7);  // one of two
  EXPECT_GE(faults_with_spares(both, endless, 5), 10);
  EXPECT_LE(faults_with_spares(both, endless, 5), 11);
}

AttemptEnded ended_with(Cause cause, const std::string& error) {
  AttemptEnded ended;
  ended.attempt = 1;
  ended.cause = cause;
  ended.error = error;
  ended.last_step = 27;
  return ended;
}

TEST(Trials, AskForTheCauseOfTheirKind) {
  const Fault fault{1, 0, "segv", "rank 3"};
  EXPECT_TRUE(judge_trial(fault, ended_with(Cause::crashed, ""), 20, 1).cause_is_right);
  EXPECT_FALSE(judge_trial(fault, ended_with(Cause::killed, ""), 20, 1).cause_is_right);
  EXPECT_EQ(judge_trial(fault, ended_with(Cause::crashed, ""), 20, 1).lost_steps, 7);
}

TEST(Trials, AskForTheRankThatWasHit) {
  const Fault fault{1, 0, "kill", "rank 3"};
  const auto culprit = [&](const std::string& error) {
    return judge_trial(fault, ended_with(Cause::killed, error), 20, 1).culprit;
  };
  EXPECT_EQ(culprit("process rank 3 with PID 0 exited"), Culprit::right);
  EXPECT_EQ(culprit("rank 3"), Culprit::right);
  EXPECT_EQ(culprit("process rank 31 with PID 0 exited"), Culprit::wrong);
  EXPECT_EQ(culprit("a rank failed"), Culprit::not_named);
  const Fault launcher{1, 0, "mpirun", "mpirun"};
  EXPECT_EQ(judge_trial(launcher, ended_with(Cause::launcher_killed, "rank 2"), 20, 1).culprit,
            Culprit::not_named);
}

TEST(Trials, AreReportedByKind) {
  const Fault kill{1, 0, "kill", "rank 3"}, segv{2, 0, "segv", "rank 0"};
  const std::vector<Trial> trials = {
      judge_trial(kill, ended_with(Cause::killed, "rank 3"), 20, 0.5),
      judge_trial(kill, ended_with(Cause::failed, "rank 1"), 24, 0.7),
      judge_trial(segv, ended_with(Cause::crashed, ""), 27, 0.9)};
  const std::string text = to_text(trials, 12);
  EXPECT_THAT(text, HasSubstr("kill            2            1              1          0"));
  EXPECT_THAT(text, HasSubstr("segv            1            1              0          1"));
  EXPECT_THAT(text, HasSubstr("of 12 steps none has changed"));
  EXPECT_THAT(to_text(to_json(trials, 12)), HasSubstr("\"culprit_is_right\":false"));
}

TEST(Trials, OfHostsAskForTheHostThatIsBlamed) {
  const Fault fault{1, 0, "node", "host n2"};
  AttemptEnded ended = ended_with(Cause::node_lost, "the launcher lost rank 3");
  EXPECT_EQ(judge_trial(fault, ended, 20, 1).culprit, Culprit::not_named);
  ended.blame = {{"n1", 2, ""}};
  EXPECT_EQ(judge_trial(fault, ended, 20, 1).culprit, Culprit::wrong);
  ended.blame = {{"n1", 2, ""}, {"n2", 2, ""}};
  EXPECT_EQ(judge_trial(fault, ended, 20, 1).culprit, Culprit::right);
  ended.cause = Cause::hang;  // noticed by ranks before mpirun notices it: right where it is named
  EXPECT_TRUE(judge_trial(fault, ended, 20, 1).cause_is_right);
  EXPECT_TRUE(judge_trial({1, 0, "link", "host n2"}, ended, 20, 1).cause_is_right);
  ended.blame.clear();  // its ranks and others may be the reason, and none is blamed
  EXPECT_EQ(judge_trial(fault, ended, 20, 1, {"n1", "n2"}).culprit, Culprit::not_named);
  EXPECT_TRUE(judge_trial(fault, ended, 20, 1, {"n1", "n2"}).cause_is_right);
  EXPECT_EQ(judge_trial(fault, ended, 20, 1, {"n2"}).culprit, Culprit::right);
  EXPECT_TRUE(judge_trial(fault, ended, 20, 1, {"n2"}).cause_is_right);
  EXPECT_EQ(judge_trial(fault, ended, 20, 1, {"n1"}).culprit, Culprit::not_named);
  EXPECT_FALSE(judge_trial(fault, ended, 20, 1, {"n1"}).cause_is_right);
  ended.blame = {{"n1", 2, ""}};  // what is blamed counts
  EXPECT_EQ(judge_trial(fault, ended, 20, 1, {"n2"}).culprit, Culprit::wrong);
  EXPECT_FALSE(judge_trial(fault, ended, 20, 1, {"n2"}).cause_is_right);
  for (const std::vector<Blame>& blame : {std::vector<Blame>{}, {{"n1", 2, ""}}}) {
    ended.blame = blame;
    EXPECT_FALSE(judge_trial(fault, ended, 20, 1).cause_is_right);
    EXPECT_TRUE(judge_trial({1, 0, "link", "host n2"}, ended, 20, 1).cause_is_right);
  }
  ended.cause = Cause::failed;
  EXPECT_FALSE(judge_trial(fault, ended, 20, 1).cause_is_right);
}

TEST(Trials, OfHostsCountSuspectsOnlyWhereTheseAreNotAllHosts) {
  const std::vector<std::string> two = {"n1", "n2"}, three = {"n1", "n2", "n3"};
  EXPECT_THAT(hosts_narrowed_down(two, two), testing::IsEmpty());  // a hang of a group of all
  EXPECT_THAT(hosts_narrowed_down(three, two), testing::IsEmpty());
  EXPECT_EQ(hosts_narrowed_down(two, three), two);
  EXPECT_EQ(hosts_narrowed_down({"n2"}, two), std::vector<std::string>{"n2"});
  const Trial trial = judge_trial({1, 0, "node", "host n2"}, ended_with(Cause::hang, ""), 20, 1,
                                  hosts_narrowed_down(two, two));
  EXPECT_FALSE(trial.cause_is_right);
  EXPECT_EQ(trial.culprit, Culprit::not_named);
}

TEST(Trials, OfAFlippedBitAskForWhatTheRanksDecided) {
  const Fault fault{7, 0, "flip", "rank 2"};
  EXPECT_EQ(culprit_in({}, fault), Culprit::not_named);
  EXPECT_EQ(culprit_in({{6, 1}}, fault), Culprit::not_named);  // of an earlier attempt
  EXPECT_EQ(culprit_in({{7, 2}}, fault), Culprit::right);
  EXPECT_EQ(culprit_in({{7, 2}, {7, 0}}, fault), Culprit::wrong);
}

TEST(Trials, OfAFaultThatEndsNoAttemptAreWrongWhereOneHasEnded) {
  EXPECT_FALSE(
      judge_trial({1, 0, "slow", "rank 3"}, ended_with(Cause::hang, ""), 20, 1).cause_is_right);
}

TEST(Trials, SayThatXidIsSimulated) {
  const Fault fault{1, 0, "xid", "rank 3"};
  const Trial trial = judge_trial(fault, ended_with(Cause::gpu_failed, "[rank 3] error"), 20, 1);
  EXPECT_EQ(trial.culprit, Culprit::right);
  EXPECT_THAT(to_text({trial}, 3), HasSubstr("xid is simulated"));
}

History history_of(double useful_s, double wall_s, Index ended_at) {
  History history;
  AttemptBegan began;
  began.attempt = 1;
  history.add(began);
  AttemptEnded ended = ended_with(Cause::killed, "");
  ended.at = ended_at;
  ended.useful_s = useful_s;
  ended.wall_s = wall_s;
  history.add(ended);
  return history;
}

TEST(RecentGoodput, IsOfTheWindowAndOfWhatRuns) {
  EXPECT_DOUBLE_EQ(recent_goodput(history_of(30, 100, 1000), 1100, 600), 0.3);
  EXPECT_DOUBLE_EQ(recent_goodput(history_of(30, 100, 1000), 1700, 600), 1);  // long ago
  EXPECT_DOUBLE_EQ(recent_goodput(history_of(0, 10, 1000), 1100, 600), 1);    // too short
  History running = history_of(30, 100, 1000);
  AttemptBegan began;
  began.attempt = 2;
  began.at = 1000;
  running.add(began);
  EXPECT_DOUBLE_EQ(recent_goodput(running, 1100, 600), 0.65);
}

TEST(SeenSteps, MustHaveTheNumbersThatTheyHad) {
  SeenSteps seen;
  seen.compare(
      "{\"step\":1,\"loss\":2.5,\"step_ms\":7}\n{\"step\":2,\"loss\":2.25,\"step_ms\":7}\n",
      "reference");
  EXPECT_EQ(seen.steps(), 2);
  seen.compare("{\"step\":2,\"loss\":2.25,\"step_ms\":9}\n{\"step\":3,\"loss\":2,\"st", "run");
  EXPECT_EQ(seen.steps(), 2);  // an unfinished line is none
  const std::string message = trireme::message_of(
      [&] { seen.compare("{\"step\":1,\"loss\":2.50000001,\"step_ms\":7}\n", "run"); });
  EXPECT_THAT(message, HasSubstr("run: step 1 has other numbers than it had before"));
}

TEST(SeenSteps, AreForgottenFromAStepOnThatWasSkipped) {
  SeenSteps seen;
  seen.compare("{\"step\":1,\"loss\":1}\n{\"step\":2,\"loss\":2}\n{\"step\":3,\"loss\":3}\n", "");
  seen.forget_from(2);
  EXPECT_EQ(seen.steps(), 1);
  seen.compare("{\"step\":2,\"loss\":5}\n", "");
  EXPECT_THAT(trireme::message_of([&] { seen.compare("{\"step\":1,\"loss\":2}\n", "run"); }),
              HasSubstr("step 1 has other numbers"));
}

}  // namespace
}  // namespace trireme::supervisor::test
