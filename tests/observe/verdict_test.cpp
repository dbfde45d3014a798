// Each rule for a job that does not move, and the sentence that it says.
#include "runtime/observe/hang/verdict.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"

#include "runtime/observe/status_page.h"

namespace trireme::observe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Kind = Verdict::Kind;
using Process = RankReport::Process;

constexpr std::int64_t second = 1'000'000'000, now = 1000 * second;

/// Ranks in step 1182, four on a node, in the groups "world" and "data" (pairs of neighbours). All
/// wait in reduce-scatter 41 of their data group and poll.
class Job {
 public:
  explicit Job(int ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      PageState page;
      page.rank = rank;
      page.ranks = ranks;
      page.coordinates = str("pp0 dp", rank % 2, " tp0");
      page.read_ns = now;
      page.phase = Phase::step;
      page.step = 1182;
      page.groups = {{"world", false, {{0, ranks, 1}}, 0, 0},
                     {"data", false, {{rank / 2 * 2, 2, 1}}, 0, 0}};
      RankReport report;
      report.rank = rank;
      report.host = str("n0", rank / 4);
      report.process = Process::running;
      report.state.state = 'S';
      report.page = page;
      reports_.push_back(report);
    }
    for (int rank = 0; rank < ranks; ++rank) wait(rank, 1, 41);
  }

  RankReport& operator[](int rank) { return reports_[static_cast<std::size_t>(rank)]; }
  PageState& page(int rank) { return *(*this)[rank].page; }
  /// The rank waits in an operation, and polls.
  void wait(int rank, int group, std::uint64_t sequence) {
    PageState& of = page(rank);
    of.moved_ns = now - 12 * second;
    of.heartbeat_ns = now - 1'000'000;
    of.waits_for = WaitsFor::operations;
    of.waits_since_ns = now - 12 * second;
    of.awaited = {{group, sequence}};
    of.groups[static_cast<std::size_t>(group)].begun = sequence;
    of.groups[static_cast<std::size_t>(group)].done = sequence - 1;
    of.operations = {{group, sequence, OperationKind::reduce_scatter, DType::f32, 100, -1,
                      now - 12 * second, 0}};
  }
  /// The rank computes, without having begun the operation of the others.
  void compute(int rank) {
    PageState& of = page(rank);
    of.moved_ns = now - 12 * second;
    of.heartbeat_ns = now - 13 * second;
    of.waits_for = WaitsFor::nothing;
    of.awaited.clear();
    of.operations.clear();
    of.groups[0].begun = of.groups[0].done = 0;
    of.groups[1].begun = of.groups[1].done = 40;
    of.op = "attention";
    of.action = "backward";
    of.micro_batch = 3;
  }
  void freeze(int rank) { page(rank).heartbeat_ns = now - 12 * second; }
  Verdict judge() const { return observe::judge(reports_); }
  std::size_t size() const { return reports_.size(); }

 private:
  std::vector<RankReport> reports_;
};

TEST(Verdict, NamesTheRankThatComputes) {
  Job job(8);
  job.compute(5);
  for (const int rank : {0, 1, 2, 3, 6, 7}) job.wait(rank, 0, 9);
  const Verdict verdict = job.judge();
  EXPECT_EQ(verdict.kind, Kind::rank);
  EXPECT_TRUE(verdict.certain);
  EXPECT_TRUE(verdict.blames_nodes());
  EXPECT_THAT(verdict.ranks, ElementsAre(5));
  EXPECT_THAT(verdict.hosts, ElementsAre("n01"));
  job.page(4).waits_since_ns -= second;
  EXPECT_EQ(job.judge().sentence,
            "hang: rank 5 (n01, pp0 dp1 tp0) has computed \"attention backward\" of micro-batch 3 "
            "for 12.0 s, step 1182; 7 ranks wait for it, first in reduce-scatter #41 of data group "
            "2");
}

TEST(Verdict, NamesTheRankThatIsFrozenInAnOperation) {
  Job job(4);
  job.freeze(2);
  for (const int rank : {0, 1}) job.wait(rank, 0, 9);
  const Verdict verdict = job.judge();
  EXPECT_EQ(verdict.kind, Kind::rank);
  EXPECT_THAT(verdict.ranks, ElementsAre(2));
  EXPECT_EQ(verdict.group, "data group 1");
  EXPECT_EQ(verdict.sentence,
            "hang: rank 2 (n00, pp0 dp0 tp0) has been in reduce-scatter #41 of data group 1 for "
            "12.0 s, step 1182, without a heartbeat; 3 ranks wait for it, first in reduce-scatter "
            "#9 of the world");
}

TEST(Verdict, NamesANodeThatIsFrozen) {
  Job job(8);
  for (const int rank : {4, 5, 6, 7}) job.freeze(rank);
  const Verdict verdict = job.judge();
  EXPECT_EQ(verdict.kind, Kind::node);
  EXPECT_FALSE(verdict.certain);
  EXPECT_THAT(verdict.hosts, ElementsAre("n01"));
  EXPECT_THAT(verdict.sentence, HasSubstr(", and so are ranks 5, 6 and 7 of the same node"));
}

TEST(Verdict, NamesOfSeveralFrozenRanksThoseThatWaitForNoOther) {
  Job job(8);
  job.compute(1);
  job.freeze(0);
  job.compute(6);
  const Verdict verdict = job.judge();
  EXPECT_EQ(verdict.kind, Kind::rank);
  EXPECT_THAT(verdict.ranks, ElementsAre(1, 6));
}

TEST(Verdict, NamesTheGroupThatDoesNotEndThoughAllHaveCome) {
  Job job(8);
  for (const int rank : {0, 1, 2, 3, 4, 5}) job.wait(rank, 0, 9);
  const Verdict verdict = job.judge();
  EXPECT_EQ(verdict.kind, Kind::group);
  EXPECT_FALSE(verdict.certain);
  EXPECT_FALSE(verdict.blames_nodes());
  EXPECT_THAT(verdict.ranks, ElementsAre(6, 7));
  EXPECT_EQ(verdict.sentence,
            "hang: all 2 ranks of data group 3 have been in reduce-scatter #41 of data group 3 for "
            "12.0 s, and it does not end, step 1182: its transport, on n01");
}

TEST(Verdict, NamesTheMessageThatDoesNotArrive) {
  Job job(2);
  for (const int rank : {0, 1}) {
    job.page(rank).groups.push_back({"pipeline", true, {{0, 2, 1}}, 118, 118});
    job.page(rank).operations.clear();
  }
  job.wait(1, 2, 118);
  job.page(0).groups[0].begun = 9;
  job.wait(0, 0, 9);
  const Verdict verdict = job.judge();
  EXPECT_EQ(verdict.kind, Kind::group);
  EXPECT_EQ(verdict.sentence,
            "hang: rank 1 (n00, pp0 dp1 tp0) has waited for message #118 of pipeline from rank 0 "
            "to rank 1 for 12.0 s, and rank 0 has begun it, step 1182");
}

TEST(Verdict, OfDifferentOperationsBlamesTheProgram) {
  Job job(4);
  job.page(3).operations[0].kind = OperationKind::all_reduce;
  job.page(3).operations[0].count = 200;
  job.freeze(1);  // whatever else there is
  const Verdict verdict = job.judge();
  EXPECT_EQ(verdict.kind, Kind::program_error);
  EXPECT_FALSE(verdict.blames_nodes());
  EXPECT_THAT(verdict.ranks, ElementsAre(2, 3));
  EXPECT_EQ(verdict.sentence,
            "program error: as operation #41 of data group 1 rank 2 began reduce-scatter of 100 "
            "f32, and rank 3 all-reduce of 200 f32");
}

TEST(Verdict, OfRanksThatWaitInACircleBlamesTheProgram) {
  Job job(6);
  for (const int rank : {4, 5}) {
    job.compute(rank);
    job.page(rank).groups[0].begun = 9;
    job.page(rank).phase = Phase::finished;
  }
  job.wait(2, 0, 9);  // of the world, and its neighbour 3 of their data group
  job.page(2).groups[1].begun = 40;
  for (const int rank : {0, 1}) job.wait(rank, 0, 9);
  const Verdict verdict = job.judge();
  EXPECT_EQ(verdict.kind, Kind::program_error);
  EXPECT_EQ(verdict.sentence,
            "program error: ranks 0, 1, 2 and 3 wait for each other in a circle, rank 0 (n00, pp0 "
            "dp0 tp0) in reduce-scatter #9 of the world: groups are used in different orders");
}

TEST(Verdict, NamesTheRankWithoutAPageForWhichOthersWait) {
  Job job(4);
  for (const int rank : {0, 1, 2, 3}) job.wait(rank, 0, 9);
  job[3].page.reset();
  job[3].process = Process::unknown;
  const Verdict verdict = job.judge();
  EXPECT_EQ(verdict.kind, Kind::rank);
  EXPECT_FALSE(verdict.certain);
  EXPECT_THAT(verdict.ranks, ElementsAre(3));
  EXPECT_EQ(verdict.sentence,
            "hang: rank 3 (n00) has no status page; 3 ranks wait for it, first in reduce-scatter "
            "#9 of the world");
}

TEST(Verdict, OfAWaitForARankThatHasFinishedBlamesTheProgram) {
  Job job(2);
  job.compute(1);
  job.page(1).phase = Phase::finished;
  const Verdict verdict = job.judge();
  EXPECT_EQ(verdict.kind, Kind::program_error);
  EXPECT_EQ(verdict.sentence,
            "program error: rank 1 (n00, pp0 dp1 tp0) has finished; rank 0 waits for it, first in "
            "reduce-scatter #41 of data group 0");
}

TEST(Verdict, NamesAProcessThatHasEndedOrIsStoppedOrSleepsInTheKernel) {
  const auto sentence = [](Process process, char state, const char* wait_channel) {
    Job job(2);
    job.compute(1);
    job[1].process = process;
    job[1].state.state = state;
    job[1].state.wait_channel = wait_channel;
    const Verdict verdict = job.judge();
    EXPECT_EQ(verdict.kind, Kind::rank);
    EXPECT_TRUE(verdict.certain);
    EXPECT_EQ(verdict.stopped, state == 'T');
    EXPECT_THAT(verdict.ranks, ElementsAre(1));
    return verdict.sentence;
  };
  const std::string rank = "hang: rank 1 (n00, pp0 dp1 tp0) ";
  const std::string rest =
      ", step 1182; rank 0 waits for it, first in reduce-scatter #41 of data group 0";
  EXPECT_EQ(sentence(Process::ended, '?', ""), rank + "has ended" + rest);
  EXPECT_EQ(sentence(Process::running, 'Z', ""), rank + "has ended" + rest);
  EXPECT_EQ(sentence(Process::running, 'T', ""), rank + "is stopped (SIGSTOP)" + rest);
  EXPECT_EQ(sentence(Process::running, 'D', "nfs_wait"),
            rank + "sleeps in the kernel in nfs_wait" + rest);
}

TEST(Verdict, SaysWhyARankFailed) {
  Job job(2);
  job.page(1).phase = Phase::failed;
  job.page(1).error = "no space";
  EXPECT_THAT(job.judge().sentence,
              HasSubstr("rank 1 (n00, pp0 dp1 tp0) has failed: no space, phase failed"));
}

TEST(Verdict, DoesNotBlameARankForAMomentInTheKernel) {
  Job job(2);
  job.compute(1);
  job[0].state.state = 'D';  // it polls all the same
  EXPECT_THAT(job.judge().ranks, ElementsAre(1));
}

TEST(Verdict, DoesNotEndWhatIsDebuggedOrStopped) {
  Job job(2);
  job.compute(1);
  job[1].state.tracer_pid = 77;
  job[1].state.state = 't';
  EXPECT_EQ(job.judge().kind, Kind::debugger);
  EXPECT_EQ(job.judge().sentence,
            "no hang: rank 1 (n00, pp0 dp1 tp0) is traced by process 77, a debugger");
  job[1].state.tracer_pid = 0;
  for (const int rank : {0, 1}) job[rank].state.state = 'T';
  EXPECT_EQ(job.judge().kind, Kind::stopped);
  EXPECT_FALSE(job.judge().blames_nodes());
}

TEST(Verdict, NamesNodesThatDoNotAnswer) {
  Job job(8);
  for (const int rank : {4, 5, 6, 7}) {
    job[rank].node_silent = true;
    job[rank].page.reset();
    job[rank].process = Process::unknown;
  }
  const Verdict verdict = job.judge();
  EXPECT_EQ(verdict.kind, Kind::node_silent);
  EXPECT_TRUE(verdict.certain);
  EXPECT_THAT(verdict.hosts, ElementsAre("n01"));
  EXPECT_EQ(verdict.sentence, "hang: n01 (ranks 4, 5, 6 and 7) does not answer");
}

TEST(Verdict, OfRanksThatAllReadIsStorage) {
  Job job(4);
  for (int rank = 0; rank < 4; ++rank) {
    job.compute(rank);
    job.page(rank).phase = Phase::load;
    job[rank].state.state = 'D';
  }
  EXPECT_EQ(job.judge().kind, Kind::storage);
  EXPECT_FALSE(job.judge().certain);
  EXPECT_EQ(job.judge().sentence,
            "hang: all 4 ranks read, and none moves: the storage does not answer, phase load");
  job.wait(2, 0, 1);
  job.page(2).phase = Phase::step;
  job.page(2).waits_for = WaitsFor::data;
  EXPECT_EQ(job.judge().kind, Kind::storage);
}

TEST(Verdict, NamesTheRankThatAloneWaitsForData) {
  Job job(2);
  job.compute(1);
  job.page(1).waits_for = WaitsFor::data;
  job.page(1).waits_since_ns = now - 11 * second;
  EXPECT_EQ(job.judge().kind, Kind::storage);
  job[1].state.state = 'D';
  EXPECT_EQ(job.judge().kind, Kind::storage);
  EXPECT_FALSE(job.judge().certain);
  EXPECT_THAT(job.judge().sentence,
              HasSubstr("rank 1 (n00, pp0 dp1 tp0) has waited for data for 11.0 s, step 1182; "
                        "rank 0 waits for it"));
}

TEST(Verdict, NamesWhoWaitsAlsoWhenItsTimeIsDamaged) {
  Job job(2);
  job.compute(1);
  for (const std::int64_t since : {now + 5 * second, std::int64_t{INT64_MAX}, INT64_MIN}) {
    job.page(0).waits_since_ns = since;
    EXPECT_THAT(job.judge().sentence, HasSubstr("rank 0 waits for it, first in reduce-scatter"));
  }
}

TEST(Verdict, OfRanksThatHaveAllFinishedIsTheirExit) {
  Job job(2);
  for (const int rank : {0, 1}) {
    job.page(rank).phase = Phase::finished;
    job[rank].process = Process::ended;
  }
  EXPECT_EQ(job.judge().kind, Kind::exit);
  EXPECT_FALSE(job.judge().blames_nodes());
  job.page(1).phase = Phase::failed;
  EXPECT_EQ(job.judge().kind, Kind::rank);
}

TEST(Verdict, LeavesOutGroupsOfALargerJob) {
  Job job(2);
  for (const int rank : {0, 1}) job.page(rank).groups[1].runs = {{0, 2, 1000}};
  const Verdict verdict = job.judge();
  EXPECT_EQ(verdict.kind, Kind::node);
  EXPECT_FALSE(verdict.certain);  // no circle: rank 1000, for which both would wait, does not exist
  EXPECT_THAT(verdict.ranks, ElementsAre(0, 1));
}

TEST(Verdict, SaysWhatIsKnownWhereNoRankIsSuspect) {
  Job job(3);
  for (const int rank : {0, 2}) {
    job[rank].page.reset();
    job[rank].process = Process::unknown;
  }
  job.page(1).phase = Phase::finished;
  job.page(1).awaited.clear();
  const Verdict verdict = job.judge();
  EXPECT_EQ(verdict.kind, Kind::none);
  EXPECT_EQ(verdict.sentence,
            "hang: no rank moves, and none is suspect: 1 of 3 ranks has a status page, rank 1 "
            "(n00, pp0 dp1 tp0) in phase finished");
  EXPECT_EQ(judge({}).sentence,
            "hang: no rank moves, and none is suspect: 0 of 0 ranks have a status page");
}

TEST(Verdict, IsNoneForAJobThatMoves) {
  Job job(2);
  job.compute(1);
  job.page(1).moved_ns = now - second / 10;
  job.page(0).moved_ns = now - second / 10;
  EXPECT_FALSE(job.judge().certain);
  EXPECT_EQ(judge({}).kind, Kind::none);
}

}  // namespace
}  // namespace trireme::observe
