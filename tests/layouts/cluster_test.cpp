// Clusters: what texts and files mean, and what is refused because it contradicts itself.
#include "runtime/layouts/search/cluster.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/message_of.h"
#include "tests/support/scratch_directory.h"

namespace trireme::layouts {
namespace {

using testing::HasSubstr;

Cluster parse(const std::string& groups) {
  return parse_cluster("{\"groups\": [" + groups + "]}", "FILE");
}

TEST(Cluster, OfATextHasNodesGpusAndType) {
  const Cluster cluster = read_cluster("8x4xH100-80");
  ASSERT_EQ(cluster.groups.size(), 1u);
  EXPECT_EQ(cluster.groups[0].nodes, 8);
  EXPECT_EQ(cluster.groups[0].per_node, 4);
  EXPECT_EQ(cluster.groups[0].network.ranks_per_node, 4);
  EXPECT_EQ(cluster.groups[0].profile.name, "H100-SXM");
  EXPECT_EQ(cluster.gpus(), 32);
  EXPECT_EQ(cluster.price(), 0);
  EXPECT_THAT(cluster.describe(), HasSubstr("32 H100-SXM of 7"));
}

TEST(Cluster, OfOneNodeNeedsNoNumberOfNodes) {
  const Cluster cluster = read_cluster("8xH200");
  EXPECT_EQ(cluster.groups[0].nodes, 1);
  EXPECT_EQ(cluster.gpus(), 8);
}

TEST(Cluster, OfATextMayHaveAnyCrossAndSpacesAroundIt) {
  for (const char* text : {"8X4XH100", "8 x 4 x H100", "8*4*H100",
                           "8\xc3\x97"
                           "4\xc3\x97H100",
                           " 8 x4 xNVIDIA H100 80GB HBM3"}) {
    const Cluster cluster = read_cluster(text);
    EXPECT_EQ(cluster.groups[0].nodes, 8) << text;
    EXPECT_EQ(cluster.groups[0].per_node, 4) << text;
    EXPECT_EQ(cluster.groups[0].profile.name, "H100-SXM") << text;
  }
}

TEST(Cluster, OfAGpuAloneIsThatOne) {
  for (const char* text : {"h100", "H100-80", "NVIDIA H100 80GB HBM3"}) {
    const Cluster cluster = read_cluster(text);
    EXPECT_EQ(cluster.gpus(), 1) << text;
    EXPECT_EQ(cluster.groups[0].profile.name, "H100-SXM") << text;
  }
  EXPECT_THAT(message_of([] { read_cluster("A100"); }), HasSubstr("not one GPU but several"));
}

TEST(Cluster, OfATextThatIsNoneIsRefusedInOneSentence) {
  for (const char* text : {"", "GPU", "8x8x", "x8xH100", "8 8 H100"})
    EXPECT_THAT(message_of([&] { read_cluster(text); }),
                HasSubstr("is no file, and no cluster: expected NODESxGPUSxGPU such as"))
        << text;
  EXPECT_THAT(message_of([] { read_cluster("0x8xH100"); }), HasSubstr("count of 0: at least 1"));
  EXPECT_THAT(message_of([] { read_cluster("1048576x8xH100"); }), HasSubstr("more than 1048576"));
  EXPECT_THAT(message_of([] { read_cluster("8x8xH9"); }), HasSubstr("H9"));
  EXPECT_THAT(message_of([] { read_cluster("8xB100x"); }),
              HasSubstr("; of its family there are B200"));
  EXPECT_THAT(message_of([] { read_cluster("8xrtx4080"); }), HasSubstr("RTX-4090, RTX-5090"));
  EXPECT_THAT(message_of([] { read_cluster("rtx5080"); }), HasSubstr("RTX-4090, RTX-5090"));
  EXPECT_THAT(message_of([] { read_cluster("h100.json"); }), HasSubstr("is no file"));
  EXPECT_THAT(message_of([] { read_cluster("8x8xH100-94"); }),
              HasSubstr("'H100-94' has 94 GB by its name, but H100-SXM has 79.1"));
}

TEST(Cluster, OfAFileHasItsOwnMemoryLinksAndPrices) {
  const ScratchDirectory folder;
  std::ofstream(folder / "cluster.json")
      << R"({"groups": [{"gpu": "H100", "nodes": 2, "per_node": 8, "gpus": 16, "memory_gib": 64,
             "price": 2.5, "link_gb_s": 300, "network_gbit_s": 200}]})";
  const Cluster cluster = read_cluster(folder / "cluster.json");
  const GpuGroup& group = cluster.groups.at(0);
  EXPECT_EQ(group.profile.memory, Index{64} << 30);
  EXPECT_EQ(group.profile.node.bytes_per_s, 300e9);
  EXPECT_EQ(group.network.port.bytes_per_s, 25e9);
  EXPECT_EQ(cluster.price(), 40);
}

TEST(Cluster, OfAFileMayHaveGroupsOfUnequalNodes) {
  const Cluster cluster = parse(R"({"gpu": "H100", "nodes": 1, "per_node": 8, "price": 2},
                                   {"gpu": "H200", "nodes": 2, "per_node": 4})");
  EXPECT_EQ(cluster.gpus(), 16);
  EXPECT_EQ(cluster.price(), 0);  // one is unknown
  EXPECT_THAT(cluster.describe(), HasSubstr(" + 8 H200 of "));
}

TEST(Cluster, OfAFileThatContradictsItselfIsRefusedInOneSentence) {
  const std::string start = R"({"gpu": "H100", "nodes": 2, "per_node": 8)";
  const std::pair<std::string, const char*> files[] = {
      {start + R"(, "gpus": 8})",
       "groups[0].gpus is 8, which contradicts nodes 2 x per_node 8 = 16"},
      {start + R"(, "memory_gib": 160})", "memory_gib is 160, which contradicts gpu H100"},
      {R"({"gpu": "H100", "nodes": 2, "per_node": 1, "link_gb_s": 300})",
       "link_gb_s contradicts per_node 1"},
      {start + R"(, "price": 2},)" + start + R"(, "price": 3})", "has the prices 2 and 3"},
      {start + "}, " + start + "}", "are of the same nodes; make them one with \"nodes\": 4"},
      {start + R"(, "price": -1})", "groups[0].price is -1; expected a number above 0"},
      {start + R"(, "color": "red"})", "groups[0].color is not understood"},
      {R"({"gpu": "H100", "nodes": 2})", "groups[0].per_node is missing"},
      {R"({"gpu": "H100", "nodes": 0, "per_node": 8})",
       "groups[0].nodes is 0; expected a whole number from 1 to"},
      {R"({"gpu": 7, "nodes": 1, "per_node": 8})", "groups[0].gpu is 7; expected a text"},
      {R"({"gpu": "H9", "nodes": 1, "per_node": 8})", "FILE: groups[0].gpu: "},
      {"7", "FILE: groups[0] is 7; expected an object"}};
  for (const auto& [groups, message] : files)
    EXPECT_THAT(message_of([&, all = &groups] { parse(*all); }), HasSubstr(message)) << groups;
  EXPECT_THAT(message_of([] { parse_cluster("{\"groups\": []}", "FILE"); }),
              HasSubstr("FILE has no \"groups\": [{\"gpu\""));
  EXPECT_THAT(message_of([] { parse_cluster("{", "FILE"); }), HasSubstr("FILE: "));
  EXPECT_THAT(message_of([] {
                parse_cluster(R"({"groups": [{"gpu": "H100", "nodes": 1, "per_node": 8}], "x": 1})",
                              "FILE");
              }),
              HasSubstr("FILE: x is not understood"));
}

TEST(Cluster, TakesAPriceForAllGpusOrForOneType) {
  Cluster cluster = parse(R"({"gpu": "H100", "nodes": 1, "per_node": 8},
                             {"gpu": "H200", "nodes": 1, "per_node": 4})");
  set_price(cluster, "2");
  EXPECT_EQ(cluster.price(), 24);
  set_price(cluster, "H200=3.5");
  EXPECT_EQ(cluster.price(), 30);
  for (const char* price : {"", "x", "H100=", "-1", "0", "H100=2x"})
    EXPECT_THAT(message_of([&] { set_price(cluster, price); }),
                HasSubstr("is no price of a GPU for an hour"))
        << price;
  set_price(cluster, "h100 sxm=1");
  EXPECT_EQ(cluster.price(), 22);
  EXPECT_THAT(message_of([&] { set_price(cluster, "A100-80=2"); }),
              HasSubstr("the cluster has no A100-80; it is 8 H100-SXM"));
}

TEST(Cluster, TakesAPriceByANameThatIsClearAmongItsOwnGpus) {
  Cluster one = read_cluster("8xA100-80");
  set_price(one, "A100=1.5");
  EXPECT_EQ(one.price(), 12);
  Cluster both = parse(R"({"gpu": "A100-80", "nodes": 1, "per_node": 8},
                          {"gpu": "A100-40", "nodes": 1, "per_node": 8})");
  EXPECT_THAT(message_of([&] { set_price(both, "A100=1.5"); }),
              HasSubstr("the cluster has more than one A100, such as A100-80GB and A100-40GB"));
  set_price(both, "1.5");
  EXPECT_EQ(both.price(), 24);
}

TEST(Cluster, HasTheWattsOfAllItsGpus) {
  EXPECT_EQ(read_cluster("2x8xH100").watts(), 16 * 700);
  Cluster cluster = read_cluster("8xH100");
  cluster.groups.front().profile.watts = 0;
  EXPECT_EQ(cluster.watts(), 0);  // one is unknown
}

}  // namespace
}  // namespace trireme::layouts
