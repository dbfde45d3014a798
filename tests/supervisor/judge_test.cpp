// What an attempt's end is called, and which failures look alike.
#include "launch/supervisor/decide/judge.h"

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::supervisor::test {
namespace {

using testing::IsEmpty;

TEST(Judge, NamesTheCauseOfEachEnd) {
  struct Case {
    Facts facts;
    Cause cause;
  };
  const std::vector<Case> cases = {
      {{.code = 0, .finished = true}, Cause::finished},
      {{.code = 0}, Cause::ended_early},
      {{.code = 0, .watched = false}, Cause::finished},
      {{.code = 75}, Cause::stopped},
      {{.code = 64}, Cause::configuration},
      {{.code = 64, .stop = SIGTERM}, Cause::configuration},
      {{.code = 65}, Cause::numerics},
      {{.code = 1}, Cause::failed},
      {{.code = 137}, Cause::killed},
      {{.code = 139}, Cause::crashed},
      {{.code = 137, .launcher_killed = true}, Cause::launcher_killed},
      {{.code = 137, .evidence = {.out_of_memory = "the kernel"}}, Cause::out_of_memory},
      {{.code = 137, .launcher_killed = true, .evidence = {.out_of_memory = "the kernel"}},
       Cause::out_of_memory},
      {{.code = 139, .evidence = {.out_of_memory = "the kernel"}}, Cause::crashed},
      {{.code = 205}, Cause::node_lost},
      {{.code = 9, .evidence = {.lost_host = "n1"}}, Cause::node_lost},
      {{.code = 9, .evidence = {.daemon_lost = true}}, Cause::node_lost},
      {{.code = 1, .hang = true}, Cause::hang},
      {{.code = 138, .stop = SIGUSR1}, Cause::stopped},
  };
  for (const Case& each : cases) EXPECT_EQ(judge(each.facts).cause, each.cause) << each.facts.code;
}

TEST(Judge, GivesLikeFailuresOneSignature) {
  const auto signature = [](const char* error, Index step) {
    Facts facts;
    facts.code = 139;
    facts.last_step = step;
    facts.evidence.first_error = error;
    return judge(facts).signature;
  };
  EXPECT_EQ(signature("rank 12 failed at 0x7ffd12ab", 7), signature("rank 3 failed at 0x11", 99));
  EXPECT_NE(signature("rank 12 failed", 7), signature("rank 12 stopped", 7));
  EXPECT_NE(signature("rank 12 failed", 7), signature("rank 12 failed", 0));
}

TEST(Judge, SaysWhyAnAttemptHasEnded) {
  struct Case {
    Facts facts;
    const char* reason;
  };
  const std::vector<Case> cases = {
      {{.code = 137, .launcher_killed = true, .evidence = {.first_error = "an error"}},
       "mpirun itself got SIGKILL: lack of memory, an operator, or the batch system"},
      {{.code = 139, .launcher_killed = true}, "mpirun itself got SIGSEGV"},
      {{.code = 137,
        .evidence = {.first_error = "an error", .dead_rank = 2, .dead_signal = SIGKILL}},
       "signal 9 (SIGKILL) ended rank 2: an error"},
      {{.code = 137,
        .evidence = {.dead_rank = 2, .dead_signal = SIGKILL, .out_of_memory = "the kernel"}},
       "the kernel"},
      {{.code = 1, .evidence = {.first_error = "an error", .last_line = "the end"}}, "an error"},
      {{.code = 1, .evidence = {.last_line = "the end"}},
       "it printed no error, and at last: the end"},
      {{.code = 1, .evidence = {.last_line = "the end", .box = "MPI_ABORT"}}, "MPI_ABORT"},
      {{.code = 1}, "it printed nothing"},
      {{.code = 1, .evidence = {.first_error = "an error", .refusal = "not so many slots"}},
       "not so many slots"},
      {{.code = 205, .evidence = {.lost_host = "n1"}}, "mpirun lost contact with n1"},
      {{.code = 1, .evidence = {.last_line = "ssh: who?", .daemon_lost = true}},
       "mpirun could not start its daemon on a host: ssh: who?"},
      {{.code = 1, .evidence = {.daemon_lost = true}},
       "mpirun could not start its daemon on a host"},
      {{.code = 0}, "the program ended with 0 before its last step"},
      {{.code = 75, .evidence = {.last_line = "the end"}}, ""},
  };
  for (const Case& each : cases) EXPECT_EQ(judge(each.facts).error, each.reason);
}

TEST(Judge, TakesWhatMpirunRefusesForAConfiguration) {
  EXPECT_EQ(judge({.code = 1, .evidence = {.refusal = "not so many slots"}}).cause,
            Cause::configuration);
}

TEST(Judge, BlamesNoHostForAConfigurationThatNeedsTooMuchMemory) {
  Facts facts;
  facts.code = 137;
  facts.evidence.rank_host = "n1";
  EXPECT_EQ(judge(facts).blame.size(), 1U);
  facts.evidence.out_of_memory = "the kernel";
  EXPECT_THAT(judge(facts).blame, IsEmpty());
}

TEST(Judge, GivesHangsOfOneKindOneSignatureWhateverTheHost) {
  const auto signature = [](const char* sentence, const char* kind) {
    Facts facts;
    facts.hang = true;
    facts.stuck = Hang{sentence, kind};
    return judge(facts).signature;
  };
  EXPECT_EQ(signature("rank 1 (alice) does nothing", "rank data group 1"),
            signature("rank 2 (bob) does nothing", "rank data group 0"));
  EXPECT_NE(signature("rank 1", "rank"), signature("rank 1", "group"));
}

TEST(Decide, SaysWhereARunGoesOnAfterCorruptionOnlyWhereThatIsKnown) {
  const auto why = [](const std::optional<Index>& clean) {
    History history;
    AttemptBegan began;
    began.attempt = 1;
    history.add(began);
    AttemptEnded ended;
    ended.attempt = 1;
    ended.cause = Cause::corruption;
    ended.clean = clean;
    history.add(ended);
    return decide({.code = 66}, history, 10).why;
  };
  EXPECT_EQ(why(std::nullopt),
            "silent corruption: once more, from the newest step that is saved, whose replicas "
            "agreed");
  EXPECT_EQ(why(30), "silent corruption: once more");  // the step is chosen later
  EXPECT_EQ(why(-1), "silent corruption: once more");
}

TEST(Judge, BlamesHostsThatTheOutputNames) {
  Facts facts;
  facts.code = 205;
  facts.evidence.lost_host = "n1";
  ASSERT_EQ(judge(facts).blame.size(), 1U);
  EXPECT_EQ(judge(facts).blame[0].points, 2);
  facts = {};
  facts.code = 139;
  facts.evidence.rank_host = "n2";
  ASSERT_EQ(judge(facts).blame.size(), 1U);
  EXPECT_EQ(judge(facts).blame[0].host, "n2");
  EXPECT_EQ(judge(facts).blame[0].points, 1);
  facts.code = 7;  // the program ended itself
  EXPECT_THAT(judge(facts).blame, IsEmpty());
}

}  // namespace
}  // namespace trireme::supervisor::test
