// Which replica is wrong, by the hashes of all, and the records of votes.
#include "runtime/train/numerics/replica_votes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"

namespace trireme::train {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using Hashes = std::vector<std::uint64_t>;

ReplicaRecord record(Index attempt, const std::vector<Hashes>& buckets) {
  ReplicaRecord made{120, attempt, "layout", {"n0", "n1", "n2", "n3", "n4"}, {}, {}};
  for (std::size_t b = 0; b < buckets.size(); ++b)
    made.votes.push_back({str("bucket ", b), "'w'", buckets[b], {}});
  for (BucketVote& vote : made.votes)
    for (std::size_t i = 0; i < vote.hashes.size(); ++i) vote.ranks.push_back(static_cast<int>(i));
  return made;
}

std::vector<int> ranks(const std::vector<ReplicaRecord>& records) {
  std::vector<int> wrong;
  for (const ReplicaHolder& holder : outvoted(records)) wrong.push_back(holder.rank);
  return wrong;
}

TEST(ReplicaVotes, TheMostFrequentHashIsRightWhereItIsHeldTwice) {
  EXPECT_THAT(ranks({record(1, {{7, 7, 9}})}), ElementsAre(2));
  EXPECT_THAT(ranks({record(1, {{7, 8, 7, 9}})}), ElementsAre(1, 3));
  EXPECT_THAT(ranks({record(1, {{7, 7, 7, 7, 0}})}), ElementsAre(4));
}

TEST(ReplicaVotes, EqualNumbersDecideNothing) {
  EXPECT_THAT(ranks({record(1, {{7, 9}})}), IsEmpty());
  EXPECT_THAT(ranks({record(1, {{7, 8, 9}})}), IsEmpty());
  EXPECT_THAT(ranks({record(1, {{7, 7, 9, 9}})}), IsEmpty());
  EXPECT_THAT(ranks({record(1, {{9, 9, 7, 7, 5}})}), IsEmpty());
}

TEST(ReplicaVotes, ABucketThatDecidesIsEnough) {
  EXPECT_THAT(ranks({record(1, {{1, 2, 3}, {7, 9, 7}, {5, 4, 5}})}), ElementsAre(1));
}

TEST(ReplicaVotes, TwoAttemptsDecideTogether) {
  const ReplicaRecord first = record(1, {{7, 9}});
  EXPECT_THAT(outvoted({first, record(2, {{7, 7}})}), ElementsAre(ReplicaHolder{1, 1, "n1"}));
  EXPECT_THAT(outvoted({first, record(2, {{9, 9}})}), ElementsAre(ReplicaHolder{1, 0, "n0"}));
  // With swapped hosts the wrong bits come from the other rank, and are not those of before.
  EXPECT_THAT(outvoted({first, record(2, {{4, 7}})}),
              ElementsAre(ReplicaHolder{1, 1, "n1"}, ReplicaHolder{2, 0, "n0"}));
  EXPECT_THAT(outvoted({first, record(2, {{7, 9}})}), IsEmpty());
}

TEST(ReplicaVotes, NoRankIsWrongWhereTheRightBitsAreMissing) {
  // The wrong bits of one have gone into the gradients of both before they were compared.
  EXPECT_THAT(outvoted({record(1, {{7, 9}}), record(2, {{4, 4}})}), IsEmpty());
  EXPECT_THAT(outvoted({record(1, {{7, 9}, {5, 6}}), record(2, {{4, 4}, {5, 5}})}),
              ElementsAre(ReplicaHolder{1, 1, "n1"}));
}

TEST(ReplicaVotes, ARecordIsALineThatIsReadBack) {
  ReplicaRecord made = record(3, {{0xfedcba9876543210, 7}});
  made.wrong = {{3, 1, "n1"}};
  const auto read = parse_replica_record(to_line(made));
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(to_line(*read), to_line(made));
  EXPECT_EQ(read->votes[0].hashes, made.votes[0].hashes);
  EXPECT_EQ(read->wrong, made.wrong);
}

TEST(ReplicaVotes, NoLineIsTakenForARecordAtAnyCut) {
  const std::string line = to_line(record(3, {{1, 7}}));
  for (std::size_t end = 0; end + 1 < line.size(); ++end)
    EXPECT_FALSE(parse_replica_record(line.substr(0, end))) << end;
  for (const char* wrong : {"[]", "{\"step\":1}", "7"}) EXPECT_FALSE(parse_replica_record(wrong));
}

TEST(ReplicaVotes, OnlyTheUndecidedStepAtTheEndOfTheFileIsLeft) {
  ReplicaRecord other = record(1, {{1, 2}}), decided = record(2, {{1, 1}});
  other.step = 60;
  decided.wrong = {{1, 1, "n1"}};
  const std::string first = to_line(record(1, {{7, 9}}));
  EXPECT_EQ(undecided(to_line(other) + first + first, "layout").size(), 2U);
  EXPECT_EQ(undecided(to_line(other) + first + "{\"st", "layout").front().step, 120);
  EXPECT_THAT(undecided(first + to_line(decided), "layout"), IsEmpty());
  EXPECT_THAT(undecided(first, "another layout"), IsEmpty());
  ReplicaRecord twice{150, 2, "", {"n0", "n1"}, {}, {{2, 0, "n0"}}};
  EXPECT_EQ(undecided(first + to_line(twice) + first, "layout").size(), 2U)
      << "a step done twice decides nothing of replicas";
  EXPECT_EQ(undecided(first + to_line(twice), "layout").size(), 1U);
  EXPECT_THAT(undecided("", "layout"), IsEmpty());
}

TEST(ReplicaVotes, AttemptsAreNamedWhereTheyAreNotThisOne) {
  EXPECT_EQ(describe({{2, 1, "n1"}, {1, 5, "n3"}}, 2), "rank 1 on n1, rank 5 on n3 in attempt 1");
}

}  // namespace
}  // namespace trireme::train
