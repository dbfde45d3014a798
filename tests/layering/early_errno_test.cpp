// Which calls of `require` read errno themselves.
#include "tests/layering/early_errno.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::layering {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(EarlyErrno, IsFoundAnywhereAmongTheArguments) {
  EXPECT_THAT(lines_of_early_errno(R"x(
require(::pipe(ends) == 0, "pipe: ", std::strerror(errno));
f(); require(read == count, "a ) in quotes",
             read < 0 ? std::strerror(errno) : "short");
)x"),
              ElementsAre(2, 3));
}

TEST(EarlyErrno, IsNotWhatFollowsTheCallOrStandsInQuotes) {
  EXPECT_THAT(lines_of_early_errno(R"x(
require_call(::pipe(ends) == 0, "pipe");
require(works, "errno is ", std::strerror(reason));
require(id >= 0, last_errno_of(id));
const int reason = errno;
)x"),
              IsEmpty());
}

}  // namespace
}  // namespace trireme::layering
