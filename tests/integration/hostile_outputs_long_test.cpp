// Continues hostile_outputs_test.cpp: more often.
#include <gtest/gtest.h>

#include "tests/support/corpus_race.h"

namespace trireme::test {
namespace {

TEST(WritersOfOneCorpusLong, LeaveThatOfOneOfThem) {
  constexpr int trials = 100;
  for (const int writers : {2, 4}) race_for_a_corpus(writers, trials);
}

}  // namespace
}  // namespace trireme::test
