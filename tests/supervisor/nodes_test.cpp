// Hosts: the file that lists them, points, quarantine, and which hosts an attempt uses.
#include "launch/supervisor/records/nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"

#include "launch/supervisor/decide/judge.h"
#include "tests/support/message_of.h"

namespace trireme::supervisor::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr Index noon = 1'700'000'000;

/// One ended attempt for each blame, all with one signature.
History history_of(const std::vector<Blame>& blames, Cause cause = Cause::killed,
                   Index between_s = 0) {
  History history;
  Index attempt = 0, at = noon;
  for (const Blame& blame : blames) {
    AttemptBegan began;
    began.attempt = ++attempt;
    history.add(began);
    AttemptEnded ended;
    ended.attempt = attempt;
    ended.at = at;
    at += between_s;
    ended.cause = cause;
    ended.signature = name(cause) + " 137 step error";
    ended.blame = {blame};
    history.add(ended);
  }
  return history;
}

std::vector<std::string> names(const std::vector<Host>& hosts) {
  std::vector<std::string> all;
  for (const Host& host : hosts) all.push_back(host.name);
  return all;
}

const std::vector<Host> three = {{"a", 4}, {"b", 4}, {"c", 4}};

TEST(Hosts, AreReadAsMpirunDoes) {
  const auto hosts = parse_hosts("# all\na slots=4\n\nb:2 # two\n c\nd slots=8 max_slots=8\n", 3);
  EXPECT_THAT(names(hosts), ElementsAre("a", "b", "c", "d"));
  EXPECT_EQ(hosts[0].slots, 4);
  EXPECT_EQ(hosts[1].slots, 2);
  EXPECT_EQ(hosts[2].slots, 3);
  EXPECT_EQ(hosts[3].slots, 8);
}

TEST(Hosts, ThatAreWrongAreRefusedWithTheirLine) {
  const auto message = [](const char* text) {
    return trireme::message_of([&] { parse_hosts(text, 1); });
  };
  EXPECT_EQ(message("a\nb slots=x"), "line 2: right is HOST slots=N, N >= 1");
  EXPECT_EQ(message("a:0"), "line 1: right is HOST slots=N, N >= 1");
  EXPECT_EQ(message("a\na"), "line 2: a is there twice");
  EXPECT_EQ(message("a cores=4"), "line 1: 'cores=4' has no meaning there; right is HOST slots=N");
  for (const char* option : {"-v", "ann@-v", "-oProxyCommand=x", "a;b", "a\x1b[31m", "$(a)"})
    EXPECT_THAT(message(option), HasSubstr("is no name of a host")) << option;
  EXPECT_THAT(message("a\x1b[31m"), HasSubstr("'a\\x1b[31m'"));
  EXPECT_EQ(parse_hosts("ann@rack_1-n2.example.org slots=2", 1).front().name,
            "ann@rack_1-n2.example.org");
}

TEST(Nodes, AreInQuarantineWithThreePoints) {
  const auto states =
      node_states(history_of({{"a", 2, "lost"}, {"a", 1, "x"}, {"b", 2, "y"}}), noon);
  ASSERT_EQ(states.size(), 2U);
  EXPECT_TRUE(states[0].quarantined());
  EXPECT_THAT(states[0].reasons, ElementsAre("attempt 1: lost", "attempt 2: x"));
  EXPECT_FALSE(states[1].quarantined());
}

TEST(Nodes, AreForgivenAfterADay) {
  const History history = history_of({{"a", 3, ""}});
  EXPECT_TRUE(node_states(history, noon + 24 * 3600)[0].quarantined());
  EXPECT_THAT(node_states(history, noon + 24 * 3600 + 1), IsEmpty());
}

TEST(Nodes, StayInQuarantineAsLongAsTheSupervisorWasAskedTo) {
  SupervisionBegan supervision;
  History history = history_of({{"a", 2, ""}, {"a", 1, ""}, {"b", 1, ""}});
  for (const Index quarantine_s : {3600, 7 * 24 * 3600}) {
    supervision.quarantine_s = quarantine_s;
    history.add(supervision);
    EXPECT_EQ(history.supervisions.back().quarantine_s, quarantine_s);
    const auto within = node_states(history, noon + quarantine_s);
    ASSERT_FALSE(within.empty());
    EXPECT_TRUE(within[0].quarantined());
    for (const NodeState& state : node_states(history, noon + quarantine_s + 1))
      EXPECT_NE(state.host, "a");  // its points are forgotten with it
  }
  EXPECT_EQ(node_states(history, noon + 3601).size(), 2U);  // b was never in quarantine
}

TEST(Nodes, StartAnewAfterTheirQuarantine) {
  History history = history_of({{"a", 3, ""}});
  SupervisionBegan supervision;
  supervision.quarantine_s = 60;
  history.add(supervision);
  AttemptBegan began;
  began.attempt = 2;
  history.add(began);
  AttemptEnded ended;
  ended.attempt = 2;
  ended.at = noon + 100;
  ended.blame = {{"a", 1, ""}};
  history.add(ended);
  EXPECT_EQ(node_states(history, noon + 100)[0].points, 1);
}

TEST(Nodes, KeepTheirPointsWhenTheClockIsSetBack) {
  EXPECT_TRUE(node_states(history_of({{"a", 3, ""}}), noon - 1'000'000)[0].quarantined());
}

TEST(Nodes, AreNotBlamedForAFaultThatMeetsThreeOfThem) {
  EXPECT_THAT(node_states(history_of({{"a", 3, ""}, {"b", 1, ""}, {"c", 1, ""}}), noon), IsEmpty());
  EXPECT_EQ(node_states(history_of({{"a", 3, ""}, {"b", 1, ""}, {"b", 1, ""}}), noon).size(), 2U);
}

TEST(Nodes, KeepTheirBlameForWhatNoProgramDoesHoweverManyThereAre) {
  for (const Cause cause : {Cause::node_lost, Cause::gpu_failed, Cause::corruption})
    EXPECT_EQ(
        node_states(history_of({{"a", 3, ""}, {"b", 2, ""}, {"c", 3, ""}}, cause), noon).size(), 3U)
        << name(cause);
  for (const Cause cause : {Cause::killed, Cause::crashed, Cause::hang, Cause::failed})
    EXPECT_THAT(node_states(history_of({{"a", 3, ""}, {"b", 2, ""}, {"c", 1, ""}}, cause), noon),
                IsEmpty())
        << name(cause);
}

TEST(Nodes, KeepTheirBlameForHangsInWhichTheyWereSilent) {
  History history = history_of({{"a", 2, ""}, {"b", 2, ""}, {"c", 2, ""}}, Cause::hang);
  for (Attempt& attempt : history.attempts) {
    Facts facts;
    facts.hang = true;
    facts.stuck = Hang{"", "silent node"};
    attempt.ended->signature = judge(facts).signature;
  }
  EXPECT_EQ(node_states(history, noon).size(), 3U);
}

TEST(Nodes, KeepTheirBlameForFailuresThatAreDaysApart) {
  constexpr Index day = 24 * 3600;
  const std::vector<Blame> blames = {{"a", 3, ""}, {"b", 3, ""}, {"c", 3, ""}};
  EXPECT_EQ(node_states(history_of(blames, Cause::killed, day), noon + 2 * day).size(), 2U);
  EXPECT_THAT(node_states(history_of(blames, Cause::killed, day / 2), noon + day), IsEmpty());
}

TEST(Nodes, ThatAreReleasedCountNoLongerForAFaultOfTheProgram) {
  History history = history_of({{"a", 3, ""}, {"b", 3, ""}});
  history.add(Release{"a", noon, 0});
  AttemptBegan began;
  began.attempt = 3;
  history.add(began);
  AttemptEnded ended = *history.attempts[0].ended;
  ended.attempt = 3;
  ended.blame = {{"c", 3, ""}};
  history.add(ended);
  EXPECT_EQ(node_states(history, noon).size(), 2U);
}

TEST(Nodes, ThatAreReleasedStartAnew) {
  History history = history_of({{"a", 3, ""}});
  history.add(Release{"a", noon - 1'000'000, 0});  // the order counts, not the clock
  EXPECT_THAT(node_states(history, noon), IsEmpty());
  AttemptBegan began;
  began.attempt = 2;
  history.add(began);
  AttemptEnded ended;
  ended.attempt = 2;
  ended.at = noon;
  ended.blame = {{"a", 1, ""}};
  history.add(ended);
  EXPECT_EQ(node_states(history, noon)[0].points, 1);
}

TEST(Nodes, AreLeftForAsLongAsAQuarantineLastsAndUntilTheirRelease) {
  History history;
  history.add(Leave{"a", noon, "remap pending"});
  history.add(Leave{"b", noon, "remap pending"});
  history.add(Release{"a", noon - 1'000'000, 0});  // the order counts, not the clock
  EXPECT_THAT(hosts_to_leave(history, noon + 3600), ElementsAre("b"));
  EXPECT_THAT(hosts_to_leave(history, noon - 3600), ElementsAre("b"));  // the clock was set back
  EXPECT_THAT(hosts_to_leave(history, noon + quarantine_window_s + 1), IsEmpty());
  history.add(Leave{"a", noon, "remap pending"});
  EXPECT_THAT(hosts_to_leave(history, noon), ElementsAre("a", "b"));
}

TEST(Choice, KeepsPlacesAndFillsGapsInOrder) {
  EXPECT_THAT(names(pick_hosts(three, {}, {}, 2)), ElementsAre("a", "b"));
  EXPECT_THAT(names(pick_hosts(three, {}, {"c", "a"}, 2)), ElementsAre("c", "a"));
  const auto states = node_states(history_of({{"a", 3, ""}}), noon);
  EXPECT_THAT(names(pick_hosts(three, states, {"a", "b"}, 2)), ElementsAre("c", "b"));
  EXPECT_THAT(names(pick_hosts(three, states, {"gone", "a"}, 2)), ElementsAre("b", "c"));
}

TEST(Choice, TakesHostsOfDeadRanksAgainBeforeItGivesUp) {
  const auto ranks = node_states(history_of({{"a", 1, ""}, {"a", 1, ""}, {"a", 1, ""}}), noon);
  EXPECT_THAT(names(pick_hosts(three, ranks, {}, 3)), ElementsAre("b", "c", "a"));
  const auto lost = node_states(history_of({{"a", 2, ""}, {"a", 2, ""}}), noon);
  EXPECT_THAT(pick_hosts(three, lost, {}, 3), IsEmpty());
}

}  // namespace
}  // namespace trireme::supervisor::test
