// Which nodes and links a preflight names, on recorded and synthetic figures.
#include "launch/preflight/judge.h"

#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::preflight::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Node node(int number, double gflops) {
  Node made;
  made.host = "n" + std::to_string(number);
  made.kind = "CPU x, 2 cores";
  made.figures["gemm_gflops"] = gflops;
  return made;
}

std::vector<std::string> names(const std::vector<Finding>& findings) {
  std::vector<std::string> all;
  for (const Finding& finding : findings)
    all.push_back(finding.host + (finding.peer.empty() ? "" : "-" + finding.peer));
  return all;
}

TEST(PreflightJudge, NamesTheSlowNodeOfMany) {
  Report report;
  for (int i = 0; i < 8; ++i) report.nodes.push_back(node(i, i == 5 ? 300 : 400 + i));
  const auto found = judge(report, nullptr);
  EXPECT_THAT(names(found), ElementsAre("n5"));
  EXPECT_TRUE(any_bad(found));
  EXPECT_THAT(found.front().text, HasSubstr("gemm_gflops 300 GFLOP/s, 0.75 of the median"));
}

TEST(PreflightJudge, ComparesAmongFourNodesOfOneKind) {
  Report report;
  for (const char* kind : {"a", "b", "a", "a", "b"}) report.nodes.emplace_back().kind = kind;
  EXPECT_FALSE(are_compared(report));
  report.nodes.emplace_back().kind = "a";
  EXPECT_TRUE(are_compared(report));
}

TEST(PreflightJudge, NeedsBothAScoreAndARatio) {
  Report close, wide;
  // Far from the others by score only: 10 % less where all are equal.
  for (int i = 0; i < 8; ++i) close.nodes.push_back(node(i, i == 5 ? 360 : 400));
  EXPECT_THAT(judge(close, nullptr), IsEmpty());
  // Far by ratio only: figures that scatter.
  const double values[] = {400, 300, 500, 350, 450, 260, 420, 380};
  for (int i = 0; i < 8; ++i) wide.nodes.push_back(node(i, values[i]));
  EXPECT_THAT(judge(wide, nullptr), IsEmpty());
}

TEST(PreflightJudge, ComparesThreeNodesOnlyWithWhatTheyWere) {
  Report report, before;
  for (int i = 0; i < 3; ++i) report.nodes.push_back(node(i, i == 1 ? 200 : 400));
  EXPECT_THAT(judge(report, nullptr), IsEmpty());
  for (int i = 0; i < 3; ++i) before.nodes.push_back(node(i, 400));
  const auto found = judge(report, &before);
  EXPECT_THAT(names(found), ElementsAre("n1"));
  EXPECT_THAT(found.front().text, HasSubstr("0.50 of what it was before"));
}

TEST(PreflightJudge, ComparesNodesOfOneKindOnly) {
  Report report;
  for (int i = 0; i < 5; ++i) report.nodes.push_back(node(i, 400));
  report.nodes.push_back(node(5, 100));
  report.nodes.back().kind = "CPU y, 1 core";
  EXPECT_THAT(judge(report, nullptr), IsEmpty());
}

// Figures of 12 short preflights in a row on one machine of 2 cores with a load of 5.
TEST(PreflightJudge, NamesTheSlowOneAmongRecordedFiguresOnly) {
  const double recorded[] = {253.3, 256.6, 253.3, 257.0, 254.4, 254.8,
                             253.6, 258.1, 253.2, 256.1, 254.5, 257.1};
  Report report;
  for (int i = 0; i < 12; ++i) report.nodes.push_back(node(i, recorded[i]));
  EXPECT_THAT(judge(report, nullptr), IsEmpty());
  report.nodes[3].figures["gemm_gflops"] *= 0.8;
  EXPECT_THAT(names(judge(report, nullptr)), ElementsAre("n3"));
}

TEST(PreflightJudge, NamesNobodyOfManyThatOnlyDifferByNoise) {
  std::mt19937 random(7);
  std::normal_distribution<double> noise(1, 0.02);
  for (int draw = 0; draw < 500; ++draw) {
    Report report;
    for (int i = 0; i < 16; ++i) report.nodes.push_back(node(i, 400 * noise(random)));
    ASSERT_THAT(judge(report, nullptr), IsEmpty()) << draw;
    report.nodes[9].figures["gemm_gflops"] *= 0.6;
    ASSERT_THAT(names(judge(report, nullptr)), ElementsAre("n9")) << draw;
  }
}

/// Pairs of 8 nodes in three rounds, where `slow` says which are.
template <class F>
Report links(F&& slow) {
  Report report;
  for (int distance : {1, 2, 4})
    for (int i = 0; i < 8; ++i)
      if (const int j = i ^ distance; i < j) {
        Pair pair{"n" + std::to_string(i), "n" + std::to_string(j), 2, 10};
        if (slow(i, j)) pair.gb_per_s = 4;
        report.pairs.push_back(pair);
      }
  return report;
}

TEST(PreflightJudge, NamesABadLinkAsALinkAndABadNodeAsANode) {
  EXPECT_THAT(names(judge(links([](int i, int j) { return i == 2 && j == 3; }), nullptr)),
              ElementsAre("n2-n3"));
  EXPECT_THAT(names(judge(links([](int i, int j) { return i == 3 || j == 3; }), nullptr)),
              ElementsAre("n3"));
  EXPECT_THAT(judge(links([](int, int) { return false; }), nullptr), IsEmpty());
}

TEST(PreflightJudge, BlamesWhatIsSlowTwiceOnly) {
  const Report first = links([](int i, int j) { return i == 2 && j == 3; });
  const Suspects once = suspects(slow_ones(first, nullptr));
  EXPECT_THAT(once.links, ElementsAre(testing::Pair("n2", "n3")));
  const Report fast = links([](int, int) { return false; });
  EXPECT_THAT(judge(better_of(first, fast), nullptr), IsEmpty());
  EXPECT_THAT(names(judge(better_of(first, first), nullptr)), ElementsAre("n2-n3"));

  Report nodes, again;
  for (int i = 0; i < 5; ++i) nodes.nodes.push_back(node(i, i == 1 ? 200 : 400));
  EXPECT_THAT(suspects(slow_ones(nodes, nullptr)).nodes, ElementsAre("n1"));
  again.nodes.push_back(node(1, 390));
  EXPECT_THAT(judge(better_of(nodes, again), nullptr), IsEmpty());
}

TEST(PreflightJudge, NamesTheNodeWhoseProductsDiffer) {
  Report report;
  for (int i = 0; i < 3; ++i) {
    report.nodes.push_back(node(i, 400));
    report.nodes.back().facts = {{"product", i == 1 ? "bad" : "good"}, {"kernel", "6"}};
  }
  report.nodes[2].facts["kernel"] = "5";
  const auto found = judge(report, nullptr);
  ASSERT_THAT(names(found), ElementsAre("n1", "n2"));
  EXPECT_TRUE(found[0].bad);
  EXPECT_FALSE(found[1].bad);  // another kernel is a warning
  report.nodes[1].kind = "another";
  EXPECT_THAT(names(judge(report, nullptr)), ElementsAre("n2"));
}

TEST(PreflightJudge, OfTwoNodesThatDifferNamesBoth) {
  Report report;
  for (int i = 0; i < 2; ++i) {
    report.nodes.push_back(node(i, 400));
    report.nodes.back().facts["program"] = std::to_string(i);
  }
  EXPECT_THAT(names(judge(report, nullptr)), ElementsAre("n0", "n1"));
}

TEST(PreflightJudge, NamesTheGpuWhoseBitsDifferAndTheOneThatIsSlow) {
  Report report;
  for (int i = 0; i < 8; ++i) {
    Node gpu;
    gpu.host = "n1/gpu" + std::to_string(i);
    gpu.kind = "GPU x";
    gpu.figures["gpu_bf16_gflops"] = i == 2 ? 300 : 400;
    gpu.facts["product bf16"] = i == 6 ? "4096: bad" : "4096: good";
    gpu.facts["training"] = i == 4 ? "bad" : "good";
    report.gpus.push_back(gpu);
  }
  report.gpus[1].facts["product bf16"] = "2048: another size";
  EXPECT_THAT(names(judge(report, nullptr)), ElementsAre("n1/gpu6", "n1/gpu4", "n1/gpu2"));
  report.gpus[7].kind = "GPU y";
  report.gpus[7].facts["training"] = "of another kind";
  EXPECT_THAT(names(judge(report, nullptr)), ElementsAre("n1/gpu6", "n1/gpu4", "n1/gpu2"));
}

TEST(PreflightJudge, ComparesGroupsOfOneKindAndWithWhatTheyWere) {
  Report report;
  for (int i = 0; i < 5; ++i)
    report.groups.push_back({"n" + std::to_string(i), "in node", i == 3 ? 100.0 : 400.0});
  report.groups.push_back({"all GPUs", "whole", 40});
  EXPECT_THAT(names(judge(report, nullptr)), ElementsAre("n3"));
  Report before = report;
  before.groups.back().gb_per_s = 60;
  EXPECT_THAT(names(judge(report, &before)), ElementsAre("n3", "all GPUs"));
}

TEST(PreflightJudge, ComparesNoGroupsOfAnotherNumberOfGpus) {
  Report report, before;
  report.groups = {{"all GPUs", "whole", 40, 16}};
  before.groups = {{"all GPUs", "whole", 60, 8}};
  EXPECT_THAT(names(judge(report, &before)), testing::IsEmpty());
  before.groups[0].gpus = 16;
  EXPECT_THAT(names(judge(report, &before)), ElementsAre("all GPUs"));
  before.groups[0].gpus = 0;  // as older programs have written it
  EXPECT_THAT(names(judge(report, &before)), ElementsAre("all GPUs"));
}

TEST(PreflightReport, IsReadBackAndRefusedWithTheMissingName) {
  Report report = links([](int, int) { return false; });
  report.nodes.push_back(node(0, 400));
  report.nodes[0].facts["kernel"] = "6.1";
  report.nodes[0].faults = {"broken"};
  report.nodes[0].warnings = {"warm"};
  report.gpus.push_back(node(1, 5));
  report.groups.push_back({"all GPUs", "whole", 40.5, 16});
  const std::string text = to_text(to_json(report));
  EXPECT_EQ(to_text(to_json(report_of(parse_json(text)))), text);
  try {
    report_of(parse_json("{\"nodes\":[]}"));
    FAIL();
  } catch (const std::exception& error) {
    EXPECT_THAT(error.what(), HasSubstr("pairs is missing"));
  }
}

}  // namespace
}  // namespace trireme::preflight::test
