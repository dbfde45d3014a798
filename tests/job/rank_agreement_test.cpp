// The errors of ranks when they do not have the same.
#include "runtime/job/rank_agreement.h"

#include <map>
#include <mutex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/host_stream.h"

namespace trireme {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using FactsOfRank = std::function<std::vector<RankFact>(int rank)>;

/// The sentences, which have to be the same on all ranks.
std::vector<std::string> compare(int ranks, std::size_t most, const FactsOfRank& facts) {
  std::mutex mutex;
  std::map<std::vector<std::string>, int> errors;
  run_on_threads(MeshShape(ranks, 1, 1), [&](Mesh& mesh) {
    HostStream stream;
    const auto sentences = differences_between_ranks({mesh, stream}, facts(mesh.rank()), most);
    mesh.world().barrier();  // all have done the same collectives
    const std::lock_guard lock(mutex);
    ++errors[sentences];
  });
  EXPECT_EQ(errors.size(), 1u);
  return errors.begin()->first;
}

TEST(RankAgreement, EqualFactsHaveNoDifferences) {
  for (int ranks : {1, 2, 5}) {
    EXPECT_THAT(compare(ranks, 3, [](int) { return std::vector<RankFact>{}; }), IsEmpty());
    EXPECT_THAT(
        compare(
            ranks, 3,
            [](int rank) {
              return std::vector<RankFact>{{"--lr", "0.1", str("node ", rank)}, {"--seed", "1"}};
            }),
        IsEmpty());
  }
}

TEST(RankAgreement, ADifferenceIsNamedWithValuesAndRanks) {
  EXPECT_THAT(
      compare(
          2, 3,
          [](int rank) {
            return std::vector<RankFact>{{"--seed", "1"}, {"--train-iters", rank == 1 ? "9" : "5"}};
          }),
      ElementsAre("--train-iters must be the same on all ranks: rank 0 has 5, rank 1 has "
                  "9"));
  EXPECT_THAT(compare(6, 3,
                      [](int rank) {
                        return std::vector<RankFact>{{"--save", rank == 3 || rank == 5 ? "" : "a"}};
                      }),
              ElementsAre("--save must be the same on all ranks: ranks 0-2, 4 have a, ranks 3, 5 "
                          "have nothing"));
}

TEST(RankAgreement, ManyDifferencesAreCutShort) {
  const FactsOfRank all_differ = [](int rank) {
    std::vector<RankFact> facts;
    for (int i = 0; i < 5; ++i) facts.push_back({str("--o", i), str(10 * i + rank)});
    return facts;
  };
  EXPECT_THAT(compare(6, 2, all_differ),
              ElementsAre("--o0 must be the same on all ranks: rank 0 has 0, rank 1 has 1, rank 2 "
                          "has 2, rank 3 has 3, others have 2 more",
                          "--o1 must be the same on all ranks: rank 0 has 10, rank 1 has 11, rank "
                          "2 has 12, rank 3 has 13, others have 2 more",
                          "and 3 more that differ"));
  EXPECT_EQ(compare(2, 1, all_differ).size(), 1u);
}

TEST(RankAgreement, FactsOfOtherProgramsAreNamedAsTheyStand) {
  EXPECT_THAT(compare(2, 1,
                      [](int rank) {
                        if (rank == 0) return std::vector<RankFact>{{"--a", "1"}, {"--b", "2"}};
                        return std::vector<RankFact>{{"--b", "2"}};
                      }),
              ElementsAre("all ranks need the same: rank 0 has --a 1, rank 1 has --b 2"));
  EXPECT_THAT(compare(2, 1,
                      [](int rank) {
                        std::vector<RankFact> facts{{"--a", "1"}};
                        if (rank == 1) facts.push_back({"--b", "2"});
                        return facts;
                      }),
              ElementsAre("all ranks need the same: rank 0 has nothing, rank 1 has --b 2"));
}

TEST(RankAgreement, NotesAreShownAndLongValuesFromWhereTheyDiffer) {
  EXPECT_THAT(compare(2, 1,
                      [](int rank) {
                        return std::vector<RankFact>{
                            {"data", rank == 0 ? "5" : "6", rank == 0 ? "/a.bin" : "/b.bin"}};
                      }),
              ElementsAre("data must be the same on all ranks: rank 0 has 5 (/a.bin), rank 1 has 6 "
                          "(/b.bin)"));
  EXPECT_THAT(compare(2, 1,
                      [](int rank) {
                        return std::vector<RankFact>{
                            {"--list", std::string(1000, 'x') + str(rank) + std::string(50, 'y')}};
                      }),
              ElementsAre("--list must be the same on all ranks: rank 0 has ..." +
                          std::string(20, 'x') + "0" + std::string(50, 'y') + ", rank 1 has ..." +
                          std::string(20, 'x') + "1" + std::string(50, 'y')));
}

TEST(RankAgreement, RequireSameThrowsOnAllRanks) {
  std::atomic<int> refused{0};
  run_on_threads(MeshShape(3, 1, 1), [&](Mesh& mesh) {
    HostStream stream;
    try {
      require_same({mesh, stream}, {{"width", mesh.rank() == 2 ? "8" : "4"}}, 1);
    } catch (const ConfigurationError& error) {
      EXPECT_STREQ(error.what(),
                   "trireme: this configuration cannot run: 1 problem\n  - width must be the same "
                   "on all ranks: ranks 0, 1 have 4, rank 2 has 8");
      ++refused;
    }
  });
  EXPECT_EQ(refused, 3);
}

TEST(DescribeRanks, JoinsNeighboursAndCutsManyShort) {
  EXPECT_EQ(describe_ranks({3}), "rank 3");
  EXPECT_EQ(describe_ranks({3, 4}), "ranks 3, 4");
  EXPECT_EQ(describe_ranks({0, 1, 2, 3, 7, 9, 10, 11}), "ranks 0-3, 7, 9-11");
  EXPECT_EQ(describe_ranks({0, 2, 4, 6, 8, 10, 12, 14}), "ranks 0, 2, 4, 6, 8, 10 and 2 more");
}

}  // namespace
}  // namespace trireme
