// Silent corruption as the supervisor sees it: what the ranks wrote, and the hosts of the next
// attempt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/supervisor/records/rank_reports.h"
#include "tests/supervisor/fake_world.h"
#include "tests/support/scratch_directory.h"

namespace trireme::supervisor::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class WrongBits : public ::testing::Test {
 protected:
  WrongBits() {
    settings_.run = "run-1";
    settings_.nodes = 2;
    settings_.ranks_per_node = 2;
    world_.all_hosts = {{"n0", 2}, {"n1", 2}, {"n2", 2}};
    world_.last_step = 60;
  }
  int run() { return Supervisor(world_, world_, settings_, replay(world_.ledger)).run(); }
  std::vector<std::string> hosts(std::size_t attempt) const {
    return replay(world_.ledger).attempts[attempt].began.nodes;
  }

  FakeWorld world_;
  Settings settings_;
};

TEST_F(WrongBits, PutTheHostOfTheRankIntoQuarantine) {
  world_.scripts = {{.steps = 25, .code = 66, .wrong_ranks = {{1, 2}}}, {.steps = 60}};
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(hosts(0), ElementsAre("n0", "n1"));
  EXPECT_THAT(hosts(1), ElementsAre("n0", "n2"));
  const AttemptEnded ended = *replay(world_.ledger).attempts[0].ended;
  EXPECT_EQ(ended.cause, Cause::corruption);
  ASSERT_EQ(ended.blame.size(), 1U);
  EXPECT_EQ(ended.blame[0].host, "n1");
  EXPECT_EQ(ended.blame[0].points, 3);
  EXPECT_THAT(world_.events, Contains("quarantine"));
}

TEST_F(WrongBits, ThatTwoReplicasDoNotDecideSwapTheHosts) {
  world_.scripts = {{.steps = 25, .code = 66},
                    {.steps = 5, .code = 137},
                    {.steps = 20, .code = 7, .wrong_ranks = {{1, 3}}},
                    {.steps = 60}};
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(hosts(0), ElementsAre("n0", "n1"));
  EXPECT_THAT(hosts(1), ElementsAre("n1", "n0"));
  EXPECT_THAT(hosts(2), ElementsAre("n1", "n0"));
  EXPECT_THAT(hosts(3), ElementsAre("n2", "n0")) << "rank 3 of attempt 1 was on n1";
  EXPECT_EQ(replay(world_.ledger).attempts[2].ended->cause, Cause::failed);
}

TEST_F(WrongBits, ThatTwoReplicasDoNotDecideSwapTheHostsAlsoWhereAGpuIsWarm) {
  const GpuSign warm = {"n1", observe::HealthAction::report, "GPU 0: thermal"};
  world_.scripts = {{.steps = 25, .code = 66, .signs = {warm}}, {.steps = 60}};
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(hosts(1), ElementsAre("n1", "n0"));
}

TEST_F(WrongBits, ComeToAnEndWithoutProgress) {
  for (int i = 0; i < 3; ++i) world_.scripts.push_back({.steps = 5, .code = 66});
  EXPECT_EQ(run(), code::no_help);
  EXPECT_THAT(world_.said.back(), HasSubstr("3 equal failures (corruption)"));
}

TEST_F(WrongBits, BlameNoHostWhereThereIsOneMachine) {
  settings_.nodes = 1;
  world_.all_hosts = {};
  world_.scripts = {{.steps = 25, .code = 66, .wrong_ranks = {{1, 1}}}, {.steps = 60}};
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(replay(world_.ledger).attempts[0].ended->blame, IsEmpty());
}

TEST_F(WrongBits, BlameTheHostOfTheRankWhereTheLastHostHasFewerRanks) {
  settings_.nodes = 3;
  settings_.min_nodes = 1;
  settings_.ranks_per_node = 4;
  world_.all_hosts = {{"n0", 4}, {"n1", 4}};
  world_.tensor = 2;
  world_.illegal = {8};  // so 6 ranks: four on n0, two on n1
  world_.scripts = {{.steps = 25, .code = 66, .wrong_ranks = {{1, 3}}}, {.steps = 60}};
  EXPECT_EQ(run(), 0);
  const Attempt first = replay(world_.ledger).attempts[0];
  EXPECT_EQ(first.began.ranks, 6);
  ASSERT_TRUE(first.ended);
  ASSERT_EQ(first.ended->blame.size(), 1U);
  EXPECT_EQ(first.ended->blame[0].host, "n0");
}

TEST_F(WrongBits, OfRanksAndAttemptsThatThereWereNotBlameNone) {
  world_.scripts = {{.steps = 25, .code = 66, .wrong_ranks = {{1, 4}, {1, -1}, {7, 0}}},
                    {.steps = 60}};
  EXPECT_EQ(run(), 0);
  EXPECT_THAT(replay(world_.ledger).attempts[0].ended->blame, IsEmpty());
}

TEST(CleanSteps, AreInTheLastLineOfTheAttempt) {
  const ScratchDirectory folder;
  folder.write("replicas.jsonl",
               "{\"step\":6,\"attempt\":1,\"clean\":4}\n"
               "{\"step\":8,\"attempt\":2}\n{\"step\":9,\"attempt\":3,\"clean\":-1}\n{\"st");
  EXPECT_EQ(newest_clean_step(folder / "", 1), 4);
  EXPECT_EQ(newest_clean_step(folder / "", 2), std::nullopt) << "replicas: all saved were compared";
  EXPECT_EQ(newest_clean_step(folder / "", 3), -1);
  EXPECT_EQ(newest_clean_step(folder / "", 4), std::nullopt);
}

std::vector<std::pair<Index, Index>> found_in(const std::string& text, Index attempt) {
  const ScratchDirectory folder;
  folder.write("replicas.jsonl", text);
  std::vector<std::pair<Index, Index>> found;
  for (const WrongRank& rank : wrong_ranks(folder / "", attempt))
    found.emplace_back(rank.attempt, rank.rank);
  return found;
}

TEST(WrongRanks, AreReadFromTheLinesOfAnAttempt) {
  const std::string text =
      R"({"step":6,"attempt":1,"wrong":[]})"
      "\n"
      R"({"step":6,"attempt":2,"wrong":[{"attempt":1,"rank":3},{"attempt":2,"rank":0}]})"
      "\n";
  EXPECT_THAT(found_in(text, 2),
              ElementsAre(std::pair<Index, Index>(1, 3), std::pair<Index, Index>(2, 0)));
  EXPECT_THAT(found_in(text, 1), IsEmpty());
  EXPECT_THAT(found_in(text, 3), IsEmpty());
}

TEST(WrongRanks, AreNotInWhatIsNoRecord) {
  for (const char* text : {"", "\n\n", "{", "[]\n7\n", "{\"attempt\":2}\n",
                           "{\"attempt\":2,\"wrong\":7}\n", "{\"attempt\":\"2\",\"wrong\":[{}]}\n"})
    EXPECT_THAT(found_in(text, 2), IsEmpty()) << text;
  EXPECT_THAT(wrong_ranks("/no/such/directory", 2), IsEmpty());
}

}  // namespace
}  // namespace trireme::supervisor::test
