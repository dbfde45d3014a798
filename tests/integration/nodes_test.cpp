// A job over several nodes, and nodes with little shared memory: the same results as one rank. Each
// "node" is a namespace of this machine with its own host name, processes and /dev/shm
// (tests/support/simulated_node).

#include <string>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/training_harness.h"

namespace trireme::test {
namespace {

// 4 ranks; `shared_memory`: the size of each node's /dev/shm.
std::string two_nodes(const std::string& shared_memory, int first = 2, int second = 2) {
  return "SIMULATED_NODE_SHM=" + shared_memory +
         " " TRIREME_MPIRUN " --timeout 120 --mca plm_rsh_agent " TRIREME_SOURCE_DIR
         "/tests/support/simulated_node -H node0:" +
         str(first, ",node1:", second) +
         " --mca btl tcp,self,vader "
         "--mca btl_tcp_if_include lo --mca oob_tcp_if_include lo -np 4 ";
}

void expect_like_one_rank(const std::string& start, const std::string& options,
                          const std::string& said, const std::string& size = small) {
  TrainingHarness harness(size);
  const std::string model = gpt + adamw;
  const TrainingRun reference = harness.train("", model + "--micro-batch-size 8");
  const Difference difference = compare(reference, harness.train(start, model + options));
  fmt::print("# {}: {}\n", options, describe(difference));
  EXPECT_TRUE(within_limits(difference)) << describe(difference);
  EXPECT_THAT(harness.output(), ::testing::HasSubstr(said));
}

TEST(Nodes, DataAxisAcrossTwoNodesWithTensorInside) {
  expect_like_one_rank(two_nodes("50%"), "--tp 2 --micro-batch-size 2 --use-distributed-optimizer",
                       "node0");
}

TEST(Nodes, PipelineAcrossTwoNodesWithSequenceParallelInside) {
  expect_like_one_rank(two_nodes("50%"), "--tp 2 --pp 2 --micro-batch-size 2 --sequence-parallel",
                       "node0");
}

TEST(Nodes, DataGroupOfFourSpansTwoNodes) {
  expect_like_one_rank(two_nodes("50%"), "--micro-batch-size 2", "node0");
}

TEST(Nodes, OfUnequalNumbersOfRanksShareTheDataByWeight) {
  expect_like_one_rank(two_nodes("50%", 3, 1),
                       "--micro-batch-size 1 --use-distributed-optimizer --bucket-size 5000 "
                       "--data-parallel-shares 1,2,1,4",
                       "shared memory of 3 ranks on node node0");
}

TEST(Nodes, OfUnequalNumbersOfRanksMayCutATensorGroup) {
  expect_like_one_rank(two_nodes("50%", 1, 3),
                       "--tp 2 --pp 2 --micro-batch-size 2 --sequence-parallel --stage-speeds 1,3",
                       "node0");
}

TEST(Nodes, TooLittleSharedMemoryFallsBackAndSaysSo) {
  expect_like_one_rank(two_nodes("4m"), "--tp 2 --micro-batch-size 2", "/dev/shm");
}

// What Docker gives a container; a long table of positions makes the arena need more on each node.
TEST(Nodes, TheSixtyFourMegabytesOfAContainerFallBackAndSaySo) {
  expect_like_one_rank(two_nodes("64m"), "--tp 2 --micro-batch-size 2 --use-distributed-optimizer",
                       "/dev/shm", small + "--max-position-embeddings 100000 ");
}

}  // namespace
}  // namespace trireme::test
