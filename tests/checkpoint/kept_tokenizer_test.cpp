// A checkpoint of a run that keeps a tokenizer belongs to jobs with the same one.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/checkpoint/load.h"
#include "tests/data/tokenizer/small_tokenizer.h"
#include "tests/support/scratch_directory.h"

namespace trireme::checkpoint {
namespace {

using data::SmallTokenizer;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string fact = "data/tokenizer";

Manifest manifest_with(const KeyValues& facts) {
  Manifest manifest;
  manifest.identity = facts;
  return manifest;
}

class KeptTokenizer : public ::testing::Test {
 protected:
  KeptTokenizer() {
    std::filesystem::create_directory(run_ / "hf");
    hash_ = data::Tokenizer::load(run_.write("hf/tokenizer.json", SmallTokenizer().json())).hash();
  }
  TokenizerFindings compare(const KeyValues& saved, const KeyValues& here) const {
    return compare_tokenizers(manifest_with(saved), here, {{fact, "corpus.json"}}, run_.path());
  }
  /// None has anything to say.
  static void expect_nothing(const TokenizerFindings& found) {
    EXPECT_EQ(found.difference + found.hint + found.doubt, "");
  }

  ScratchDirectory run_;
  std::string hash_;
};

TEST_F(KeptTokenizer, IsThatOfACheckpointThatNamesNone) {
  expect_nothing(compare({}, {{fact, hash_}}));
  expect_nothing(compare({}, {{"data/train tokens", "1"}}));
  const TokenizerFindings other = compare({}, {{fact, "00"}});
  EXPECT_EQ(other.difference, "data: tokenizer is 00 here (corpus.json) and " + hash_ + " in " +
                                  (run_ / "hf/tokenizer.json") + ", which is that of the model");
  EXPECT_EQ(other.hint, "; the tokens must be those of --tokenizer " + (run_ / "hf"));
  EXPECT_EQ(other.doubt, "");
}

TEST_F(KeptTokenizer, IsOnlyAHintWhereTheCheckpointNamesOne) {
  expect_nothing(compare({{fact, "00"}}, {{fact, "00"}}));
  const TokenizerFindings other = compare({{fact, hash_}}, {{fact, "00"}});
  EXPECT_EQ(other.difference, "");
  EXPECT_THAT(other.hint, HasSubstr("--tokenizer " + (run_ / "hf")));
  expect_nothing(compare({{fact, "11"}}, {{fact, "00"}}));
}

TEST_F(KeptTokenizer, ThatCannotBeReadLeavesADoubt) {
  run_.write("hf/tokenizer.json", "{}");
  const TokenizerFindings found = compare({}, {{fact, "00"}});
  EXPECT_THAT(found.doubt, ::testing::AllOf(HasSubstr("cannot be compared"), Not(HasSubstr("\n"))));
  EXPECT_EQ(found.difference + found.hint, "");
  expect_nothing(compare({{fact, "11"}}, {{fact, "00"}}));
  std::filesystem::remove(run_ / "hf/tokenizer.json");
  expect_nothing(compare({}, {{fact, "00"}}));
}

}  // namespace
}  // namespace trireme::checkpoint
