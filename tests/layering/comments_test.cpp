// Which comments of headers are no sentences.
#include "tests/layering/comments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::layering {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Comments, ThatBeginWithoutSubjectAreFound) {
  EXPECT_THAT(lines_of_fragments(R"(/// Of a step: its seconds.
double seconds = 0;
  // As above.
int rank = 0;  // of a GPU
/// The same, for a stage.
std::vector<int> types;  /// of each stage
)"),
              ElementsAre(1, 3, 4, 5, 6));
}

TEST(Comments, ThatAreSentencesMayWrapAnywhere) {
  EXPECT_THAT(lines_of_fragments(R"(/// Returns the bytes
/// of a slice.
/// As many ranks have it.
Index bytes;    // one entry per rank
int official;   // offset
int same = 0;   // the same on all ranks
Index Ofen, As; // the size of it
)"),
              IsEmpty());
}

}  // namespace
}  // namespace trireme::layering
