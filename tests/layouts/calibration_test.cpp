// Calibrations in place of a GPU, and what they are warned about.
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/cost/profile.h"
#include "runtime/layouts/search/cluster.h"
#include "tests/cost/tiny_profile.h"
#include "tests/support/message_of.h"
#include "tests/support/scratch_directory.h"

namespace trireme::layouts {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class Calibration : public testing::Test {
 protected:
  Calibration() {
    profile_.name = "CPU of a test";
    profile_.grade = cost::Grade::calibrated;
    profile_.ranks_per_node = 4;
    profile_.port_efficiency = 0.5;
  }
  GpuGroup group(const std::string& counts) const {
    std::ofstream(file_) << text_of(profile_, "today");
    return read_cluster(counts + "x" + file_).groups.front();
  }
  std::vector<std::string> doubts(const std::string& counts,
                                  const std::string& cpu = "CPU of a test") const {
    return calibration_doubts(group(counts), cpu);
  }
  cost::Profile profile_ = cost::unit_profile();
  ScratchDirectory folder_;
  const std::string file_ = folder_ / "cpu.json";
};

TEST_F(Calibration, StandsForAGpuOfACluster) {
  const GpuGroup found = group("2x4");
  EXPECT_EQ(found.profile.name, "CPU of a test");
  EXPECT_EQ(found.nodes, 2);
  EXPECT_EQ(found.per_node, 4);
}

TEST_F(Calibration, OfWhatIsPlannedForHasNoDoubts) { EXPECT_THAT(doubts("4"), IsEmpty()); }

TEST_F(Calibration, WithOtherRanksOnANodeIsDoubted) {
  EXPECT_THAT(doubts("2"), ElementsAre(HasSubstr("calibrated with 4 ranks on a node, not 2")));
}

TEST_F(Calibration, OfAnotherCpuIsDoubted) {
  EXPECT_THAT(doubts("4", "CPU of mine"),
              ElementsAre(HasSubstr("on 'CPU of a test', this machine is 'CPU of mine'")));
}

TEST_F(Calibration, OfOneNodeIsDoubtedForSeveral) {
  EXPECT_THAT(doubts("2x4"), ElementsAre(HasSubstr("calibrated on one node")));
  profile_.across = {3e-6, 2e9};
  EXPECT_THAT(doubts("2x4"), IsEmpty());
  const cost::Network network = group("2x4").network;
  EXPECT_DOUBLE_EQ(network.port.latency, 3e-6);
  EXPECT_DOUBLE_EQ(network.port.bytes_per_s * profile_.port_efficiency, 2e9);
}

TEST_F(Calibration, OfOneRankIsRefusedForSeveral) {
  profile_.ranks_per_node = 1;
  profile_.node = {};
  EXPECT_THAT(doubts("1"), IsEmpty());
  EXPECT_THAT(message_of([&] { group("2"); }),
              HasSubstr("was calibrated with one rank, which communicates with none"));
}

TEST_F(Calibration, OfCollectivesGivesWayToTheLinksOfAClusterFile) {
  constexpr auto all_reduce = CollectiveWork::Kind::all_reduce;
  profile_.collectives = {{all_reduce, false, 4, {0, 1e9}}, {all_reduce, true, 8, {0, 1e9}}};
  std::ofstream(file_) << text_of(profile_, "today");
  const auto collectives = [&](const std::string& more) {
    const std::string json = R"({"groups": [{"gpu": ")" + file_ + R"(", "nodes": 2, "per_node": 4)";
    return parse_cluster(json + more + "}]}", "FILE").groups.front().profile.collectives;
  };
  EXPECT_EQ(collectives("").size(), 2u);
  const auto across = collectives(R"(, "link_gb_s": 3)");
  ASSERT_EQ(across.size(), 1u);
  EXPECT_TRUE(across.front().across);
  const auto inside = collectives(R"(, "network_gbit_s": 3)");
  ASSERT_EQ(inside.size(), 1u);
  EXPECT_FALSE(inside.front().across);
}

TEST(ThisCpu, HasAName) { EXPECT_THAT(name_of_this_cpu(), testing::StartsWith("CPU ")); }

}  // namespace
}  // namespace trireme::layouts
