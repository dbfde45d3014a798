// What is slow is measured once more before it is blamed: a preflight of simulated nodes, each a
// thread, whose figures a test invents.
#include "launch/preflight/measure.h"

#include <atomic>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/comm/mesh.h"
#include "trireme/kernels/device.h"

#include "launch/preflight/judge.h"

namespace trireme::preflight::test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

/// Figures by node and by how often they were asked for before.
struct Nodes {
  int count = 8;
  std::function<double(int node, int time)> gflops = [](int, int) { return 400; };
  std::function<double(int a, int b, int time)> gb_per_s = [](int, int, int) { return 10; };
  std::function<double(int rail, int time)> nccl = nullptr;
  bool all_twice = false;
};

struct Outcome {
  Report report;
  std::vector<std::string> named;
  std::vector<int> measured;  // how often each node was
  std::vector<std::string> links;
};

std::string name_of(int node) { return "n" + std::to_string(node); }

/// One rank of it.
Report measure_as(const Host& host, const Nodes& nodes, int& measured) {
  std::vector<std::string> names;
  for (int node = 0; node < nodes.count; ++node) names.push_back(name_of(node));
  const int own = host.rank();
  std::map<std::pair<int, int>, int> times;
  int group_times = 0;
  const auto speed = [&](Node& node) {
    node.figures["gemm_gflops"] = nodes.gflops(own, measured++);
  };
  Work work;
  work.check = [&] {
    Node node;
    node.host = names[static_cast<std::size_t>(own)];
    node.kind = "CPU x, 2 cores";
    speed(node);
    return node;
  };
  work.measure_speed = speed;
  work.link = [&](int a, int b) {
    return Pair{name_of(a), name_of(b), 2, nodes.gb_per_s(a, b, times[{a, b}]++)};
  };
  if (nodes.nccl)
    work.groups = [&] {
      std::vector<Group> groups;
      for (int rail = 0; rail < 8; ++rail)
        groups.push_back({"GPU " + std::to_string(rail), "rail", nodes.nccl(rail, group_times)});
      ++group_times;
      return groups;
    };
  return measure_all(host, names, work, nodes.all_twice);
}

Outcome measure(const Nodes& nodes) {
  Outcome outcome;
  outcome.measured.resize(static_cast<std::size_t>(nodes.count));
  run_on_threads(MeshShape(nodes.count, 1, 1), [&](Mesh& mesh) {
    const std::unique_ptr<Device> cpu = open_cpu();
    const std::unique_ptr<Stream> stream = cpu->make_stream();
    Report report =
        measure_as({mesh, *stream}, nodes, outcome.measured[static_cast<std::size_t>(mesh.rank())]);
    if (mesh.rank() == 0) outcome.report = std::move(report);
  });
  for (const Finding& finding : judge(outcome.report, nullptr))
    outcome.named.push_back(finding.host + (finding.peer.empty() ? "" : "-" + finding.peer));
  for (const Pair& pair : outcome.report.pairs) outcome.links.push_back(pair.from + "-" + pair.to);
  return outcome;
}

TEST(PreflightMeasurement, OfNodesThatAreAlikeIsMadeOnceInLog2Rounds) {
  const Outcome outcome = measure({});
  EXPECT_THAT(outcome.named, IsEmpty());
  EXPECT_THAT(outcome.measured, testing::Each(1));
  EXPECT_EQ(outcome.report.nodes.size(), 8U);
  EXPECT_EQ(outcome.links.size(), 3U * 4U);  // rounds and pairs of each
}

TEST(PreflightMeasurement, NamesANodeThatIsSlowTwice) {
  Nodes nodes;
  nodes.gflops = [](int node, int) { return node == 5 ? 250 : 400; };
  const Outcome outcome = measure(nodes);
  EXPECT_THAT(outcome.named, ElementsAre("n5"));
  EXPECT_THAT(outcome.measured, ElementsAre(1, 1, 1, 1, 1, 2, 1, 1));
}

TEST(PreflightMeasurement, BlamesNoNodeForBeingSlowOnce) {
  Nodes nodes;
  nodes.gflops = [](int node, int time) { return node == 5 && time == 0 ? 250 : 400; };
  const Outcome outcome = measure(nodes);
  EXPECT_THAT(outcome.named, IsEmpty());
  EXPECT_EQ(outcome.measured[5], 2);
}

TEST(PreflightMeasurement, NamesALinkThatIsSlowTwiceAndMeasuresItsEndsWithOthers) {
  Nodes nodes;
  std::atomic<int> calls_2_6 = 0, calls_3_7 = 0;
  nodes.gb_per_s = [&](int a, int b, int) {
    calls_2_6 += a == 2 && b == 6 ? 1 : 0;
    calls_3_7 += a == 3 && b == 7 ? 1 : 0;
    return a == 2 && b == 3 ? 4 : 10;
  };
  EXPECT_THAT(measure(nodes).named, ElementsAre("n2-n3"));
  EXPECT_EQ(calls_2_6, 2 * 2);  // both ends, twice
  EXPECT_EQ(calls_3_7, 2 * 2);
}

TEST(PreflightMeasurement, BlamesNoLinkForBeingSlowOnce) {
  Nodes nodes;
  nodes.gb_per_s = [](int a, int b, int time) { return a == 2 && b == 3 && time == 0 ? 4 : 10; };
  EXPECT_THAT(measure(nodes).named, IsEmpty());
}

TEST(PreflightMeasurement, NamesANodeThatHadOneLinkOnlyByItsLinksWithOthers) {
  Nodes nodes;
  nodes.count = 5;
  nodes.gb_per_s = [](int a, int b, int) { return a == 4 || b == 4 ? 4 : 10; };
  EXPECT_THAT(measure(nodes).named, ElementsAre("n4"));
}

TEST(PreflightMeasurement, NamesARailThatIsSlowTwiceOnly) {
  Nodes nodes;
  nodes.count = 2;
  nodes.nccl = [](int rail, int) { return rail == 3 ? 20 : 50; };
  EXPECT_THAT(measure(nodes).named, ElementsAre("GPU 3"));
  nodes.nccl = [](int rail, int time) { return rail == 3 && time == 0 ? 20 : 50; };
  EXPECT_THAT(measure(nodes).named, IsEmpty());
}

TEST(PreflightMeasurement, MeasuresEverythingTwiceWhenAsked) {
  Nodes nodes;
  nodes.count = 3;
  nodes.all_twice = true;
  nodes.gflops = [](int, int time) { return time == 0 ? 100 : 400; };
  nodes.gb_per_s = [](int, int, int time) { return time == 0 ? 1 : 10; };
  const Outcome outcome = measure(nodes);
  EXPECT_THAT(outcome.measured, testing::Each(2));
  for (const Node& node : outcome.report.nodes) EXPECT_EQ(node.figures.at("gemm_gflops"), 400);
  for (const Pair& pair : outcome.report.pairs) EXPECT_EQ(pair.gb_per_s, 10);
}

}  // namespace
}  // namespace trireme::preflight::test
