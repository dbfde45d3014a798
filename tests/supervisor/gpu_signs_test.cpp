// What ranks write about GPUs, as evidence: whose host it is, and what it costs the host.
#include <csignal>
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/supervisor/decide/judge.h"
#include "launch/supervisor/records/rank_reports.h"
#include "runtime/observe/gpu_health/health_monitor.h"
#include "tests/support/scratch_directory.h"

namespace trireme::supervisor::test {
namespace {

using observe::HealthAction;
using testing::IsEmpty;

const std::vector<Host> hosts = {{"n1.cluster", 4}, {"10.0.0.2", 4}};

TEST(GpuSigns, AreThoseOfListedHosts) {
  const ScratchDirectory folder;
  ASSERT_TRUE(observe::append_health_report(folder / "n1-0.jsonl",
                                            {"n1", 0, HealthAction::report, "warm"}));
  ASSERT_TRUE(
      observe::append_health_report(folder / "n2-4.jsonl", {"n2", 4, HealthAction::fatal, "gone"}));
  folder.write("torn", "{\"host\":\"n3\"");
  const auto signs = read_gpu_signs(folder.path(), hosts, 8);
  ASSERT_EQ(signs.size(), 2U);
  EXPECT_EQ(signs[0].host, "n1.cluster");
  EXPECT_EQ(signs[0].text, "warm");
  EXPECT_EQ(signs[1].host, "10.0.0.2");  // by its rank
  EXPECT_EQ(signs[1].action, HealthAction::fatal);
  EXPECT_EQ(read_gpu_signs(folder.path(), {}, 8)[1].host, "");
  EXPECT_THAT(read_gpu_signs(folder / "missing", hosts, 8), IsEmpty());
}

TEST(GpuSigns, OfAFatalKindAreTheCauseAndPutTheHostInQuarantine) {
  Facts facts;
  facts.code = 1;
  facts.evidence.gpu_signs = {{"n1", HealthAction::report, "warm"},
                              {"n2", HealthAction::fatal, "GPU 3: Xid 79"},
                              {"n2", HealthAction::fatal, "GPU 3: GPU lost"}};
  for (const bool hang : {false, true}) {
    facts.hang = hang;
    const Verdict verdict = judge(facts);
    EXPECT_EQ(verdict.cause, Cause::gpu_failed);
    ASSERT_EQ(verdict.blame.size(), 3U);
    EXPECT_EQ(verdict.blame[0].points, 0);
    EXPECT_EQ(verdict.blame[1].host, "n2");
    EXPECT_EQ(verdict.blame[1].points, quarantine_points);
    EXPECT_EQ(verdict.blame[1].why, "GPU 3: Xid 79");
    EXPECT_EQ(verdict.blame[2].points, 0);
  }
}

TEST(GpuSigns, OfTheProgramKeepBlameFromTheHost) {
  Facts facts;
  facts.code = 128 + SIGABRT;
  facts.evidence.rank_host = "n2";
  ASSERT_EQ(judge(facts).blame.size(), 1U);
  facts.evidence.gpu_signs = {{"n2", HealthAction::program, "GPU 3: Xid 31"}};
  const Verdict verdict = judge(facts);
  EXPECT_EQ(verdict.cause, Cause::crashed);
  ASSERT_EQ(verdict.blame.size(), 1U);
  EXPECT_EQ(verdict.blame[0].points, 0);
}

TEST(GpuSigns, DoNotMakeAFinishedJobAFailure) {
  Facts facts;
  facts.finished = true;
  facts.evidence.gpu_signs = {{"n2", HealthAction::fatal, "GPU 3: Xid 79"}};
  EXPECT_EQ(judge(facts).cause, Cause::finished);
}

TEST(GpuSigns, ThatAreOnlyShownDoNotMakeAFailureOneOfTheProgram) {
  History history;
  for (Index i = 1; i <= 3; ++i) {
    AttemptBegan began;
    began.attempt = i;
    began.at = 100 * i;
    history.add(began);
    AttemptEnded ended;
    ended.attempt = i;
    ended.at = 100 * i + 1;
    ended.signature = "same";
    ended.blame = {{"n1", 1, "died"}, {"n2", 0, "warm"}, {"n3", 0, "warm"}};
    history.add(ended);
  }
  const auto states = node_states(history, 400);
  ASSERT_EQ(states.size(), 3U);
  EXPECT_EQ(states[0].points, 3);
  EXPECT_EQ(states[1].points, 0);
}

}  // namespace
}  // namespace trireme::supervisor::test
