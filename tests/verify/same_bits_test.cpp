// A repeated run is compared also where a step made no update, so that it was not saved.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/verify/judge.h"
#include "tests/support/scratch_directory.h"

namespace trireme::verify {
namespace {

const LayoutOfRanks one_rank{MeshShape(1, 1, 1)};

/// What a job of one tensor leaves that has saved nothing.
class Job {
 public:
  explicit Job(const std::string& norm_of_step_2) {
    folder_.write(
        "metrics.jsonl",
        "{\"loss\":2.5,\"grad_norm\":1.5}\n{\"loss\":2.25,\"grad_norm\":" + norm_of_step_2 + "}\n");
    folder_.write("dump.gradients.index", "weight 2 0\n");
    folder_.write("dump.gradients.f32", std::string(2 * sizeof(float), '\0'));
  }
  const std::string& folder() const { return folder_.path(); }

 private:
  ScratchDirectory folder_;
};

TEST(RepeatedRun, WithoutASavedStepIsComparedByItsLines) {
  const Job first("null"), same("null"), other("3.5");
  const Check equal = check_same_bits(first.folder(), same.folder(), one_rank);
  EXPECT_TRUE(equal.passed) << equal.text;
  EXPECT_EQ(equal.compared, 1);
  const Check different = check_same_bits(first.folder(), other.folder(), one_rank);
  EXPECT_FALSE(different.passed);
  EXPECT_THAT(different.text, testing::HasSubstr("gradient norms have other bits"));
}

}  // namespace
}  // namespace trireme::verify
