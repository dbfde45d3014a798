// Figures of the newest preflight of each host.
#include <filesystem>

#include <gtest/gtest.h>

#include "launch/supervisor/machine/host_preflight.h"
#include "runtime/store/write/unfinished.h"
#include "tests/support/scratch_directory.h"

namespace trireme::supervisor::test {
namespace {

preflight::Report of(const std::string& host, double gflops) {
  preflight::Report report;
  report.nodes.emplace_back();
  report.nodes[0].host = host;
  report.nodes[0].figures["gemm_gflops"] = gflops;
  return report;
}

TEST(PreflightFigures, AreTheNewestOfEachHost) {
  const ScratchDirectory folder;
  const Paths paths(folder.path());
  EXPECT_EQ(text_of_figures(read_preflight(paths)), "");
  std::filesystem::create_directories(paths.folder);
  keep_preflight(paths, of("n1", 100));
  keep_preflight(paths, of("n2", 200));
  keep_preflight(paths, of("n1", 300));
  EXPECT_EQ(text_of_figures(read_preflight(paths)),
            "preflight of n1: gemm_gflops 300\npreflight of n2: gemm_gflops 200\n");
  folder.write("supervisor/preflight.json", "{\"nodes\":[");
  EXPECT_EQ(text_of_figures(read_preflight(paths)), "");
}

TEST(UnfitHosts, AreReadFromWhatIsShownOfNodes) {
  const ScratchDirectory folder;
  const Paths paths(folder.path());
  EXPECT_TRUE(read_unfit(paths).empty());
  std::filesystem::create_directories(paths.folder);
  Json nodes = to_json(std::vector<NodeState>());
  add_unfit(nodes, {{"n1", "it is broken"}});
  replace_file(paths.nodes, to_text(nodes) + "\n");
  ASSERT_EQ(read_unfit(paths).size(), 1U);
  EXPECT_EQ(read_unfit(paths)[0].host, "n1");
  EXPECT_EQ(read_unfit(paths)[0].why, "it is broken");
  folder.write("supervisor/nodes.json", "{\"unfit\":[");
  EXPECT_TRUE(read_unfit(paths).empty());
}

}  // namespace
}  // namespace trireme::supervisor::test
