// The supervisor shows what a job prints, without the boxes of mpirun whose meaning it says itself.
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launch/supervisor/machine/output.h"

namespace trireme::supervisor::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string mpirun_rule = std::string(74, '-') + "\n";
const std::string known_box =
    mpirun_rule +
    "Primary job  terminated normally, but 1 process returned\n"
    "a non-zero exit code. Per user-direction, the job has been aborted.\n" +
    mpirun_rule;
const std::string other_box = mpirun_rule + "a table of the program\n" + mpirun_rule;

/// `pass` however the text arrives.
std::string shown_of(const std::string& text, std::size_t part, OutsideBoxes& boxes) {
  std::string shown;
  for (std::size_t at = 0; at < text.size(); at += part) shown += boxes.pass(text.substr(at, part));
  return shown + boxes.rest();
}

TEST(OutsideBoxes, ShowsAllButTheBoxesThatItKnows) {
  const std::string text =
      "step 1\n" + known_box + "step 2\n" + other_box + known_box + known_box + "--\nend";
  for (const std::size_t part : {text.size(), std::size_t{1}, std::size_t{7}}) {
    OutsideBoxes boxes;
    EXPECT_EQ(shown_of(text, part, boxes), "step 1\nstep 2\n" + other_box + "--\nend") << part;
    EXPECT_EQ(boxes.left_out().size(), 3U);
  }
}

TEST(OutsideBoxes, ShowsAnOtherBoxThatComesAfterARuleOfItsOwn) {
  OutsideBoxes boxes;
  EXPECT_EQ(shown_of(mpirun_rule + mpirun_rule + other_box, 9, boxes),
            mpirun_rule + mpirun_rule + other_box);
}

TEST(OutsideBoxes, HoldsBackNoLineThatIsNotComplete) {
  OutsideBoxes boxes;
  EXPECT_EQ(boxes.pass("[====  ] 3/9"), "[====  ] 3/9");
  EXPECT_EQ(boxes.pass("\r---"), "\r---");
  EXPECT_EQ(boxes.pass("\n---"), "\n");
  EXPECT_EQ(boxes.pass("x"), "---x");
}

TEST(OutsideBoxes, EndsABoxThatMpirunDoesNotEnd) {
  std::string text =
      mpirun_rule + "MPI_ABORT was invoked on rank 2 in communicator MPI_COMM_WORLD\n";
  for (int i = 0; i < 1000; ++i) text += "step\n";
  OutsideBoxes boxes;
  EXPECT_THAT(shown_of(text, 100, boxes), HasSubstr("step\nstep\n"));
  EXPECT_THAT(boxes.left_out(),
              ElementsAre("MPI_ABORT was invoked on rank 2 in communicator MPI_COMM_WORLD"));
}

}  // namespace
}  // namespace trireme::supervisor::test
