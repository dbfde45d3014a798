// The rule for hangs on simulated jobs of five layouts: whatever stops, and wherever, the verdict
// names it.
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"

#include "runtime/observe/hang/verdict.h"
#include "runtime/observe/hang/wait_graph.h"
#include "tests/observe/simulated_job.h"

namespace trireme::observe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Instructed = SimulatedJob::Instruction::Kind;

WaitGraph graph_of(const std::vector<RankReport>& reports) {
  std::vector<PageState> pages;
  for (const RankReport& report : reports) pages.push_back(*report.page);
  return {pages, static_cast<int>(reports.size())};
}

class SimulatedHangs : public ::testing::TestWithParam<SimulatedMesh> {
 protected:
  static constexpr int draws = 700;  // of each of two faults, on each of five layouts

  int draw(std::size_t below) {
    return std::uniform_int_distribution<int>(0, static_cast<int>(below) - 1)(random_);
  }

  SimulatedJob job_{GetParam()};
  std::mt19937 random_{7};
};

TEST_P(SimulatedHangs, ARankThatStopsIsNamed) {
  int computing = 0;
  for (int i = 0; i < draws; ++i) {
    const int rank = draw(static_cast<std::size_t>(job_.ranks()));
    const auto at = static_cast<std::size_t>(draw(job_.program(rank).size()));
    const auto reports = job_.run_until_rank_stops(rank, at);
    const Verdict verdict = judge(reports);
    ASSERT_EQ(verdict.kind, Verdict::Kind::rank) << verdict.sentence;
    ASSERT_TRUE(verdict.certain);
    ASSERT_THAT(verdict.ranks, ElementsAre(rank)) << verdict.sentence;
    ASSERT_THAT(verdict.sentence, HasSubstr("hang: rank " + std::to_string(rank) + " ("));
    if (job_.program(rank)[at].kind != Instructed::compute) continue;
    // Without heartbeats the graph alone names one that is stuck in a computation.
    ++computing;
    ASSERT_THAT(graph_of(reports).suspects(), ElementsAre(rank));
  }
  EXPECT_GT(computing, draws / 10);
}

TEST_P(SimulatedHangs, AnOperationThatIsLostIsNamed) {
  for (int i = 0; i < draws; ++i) {
    const int rank = draw(static_cast<std::size_t>(job_.ranks()));
    const auto& program = job_.program(rank);
    const auto& lost = program[static_cast<std::size_t>(draw(program.size()))];
    if (lost.kind == Instructed::compute) {
      --i;
      continue;
    }
    const auto reports = job_.run_until_operation_is_lost(lost.group, lost.sequence);
    const Verdict verdict = judge(reports);
    const SimulatedJob::Group& group = job_.group(lost.group);
    ASSERT_EQ(verdict.kind, Verdict::Kind::group) << verdict.sentence;
    ASSERT_FALSE(verdict.certain);
    ASSERT_FALSE(verdict.blames_nodes());
    ASSERT_EQ(verdict.ranks, group.members) << verdict.sentence;
    ASSERT_THAT(verdict.group, HasSubstr(group.name));
    ASSERT_THAT(verdict.sentence, HasSubstr("#" + std::to_string(lost.sequence) + " of "));
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, SimulatedHangs,
                         ::testing::Values(SimulatedMesh{1, 4, 2}, SimulatedMesh{2, 2, 2},
                                           SimulatedMesh{4, 2, 1}, SimulatedMesh{2, 4, 4},
                                           SimulatedMesh{4, 2, 4}),
                         [](const auto& mesh) {
                           return str("pipeline", mesh.param.pipeline, "_data", mesh.param.data,
                                      "_tensor", mesh.param.tensor);
                         });

}  // namespace
}  // namespace trireme::observe
