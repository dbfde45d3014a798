// What a failed system call says: the reason of that call, however late the message is made.
#include "runtime/core/require_call.h"

#include <string_view>

#include <gtest/gtest.h>

namespace trireme {
namespace {

int fails_with(int reason) {
  errno = reason;
  return -1;
}

/// Writing it sets errno, as a stream that grows may.
struct SetsErrno {
  friend std::ostream& operator<<(std::ostream& out, const SetsErrno& /*part*/) {
    errno = EINVAL;
    return out << "file";
  }
};

TEST(RequireCall, SaysWhyTheCallAmongItsArgumentsFailed) {
  errno = EISDIR;  // of an earlier call
  const int line = __LINE__ + 2;
  try {
    require_call(fails_with(ENOENT) == 0, SetsErrno(), ' ', 7);
    FAIL() << "did not throw";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "file 7: No such file or directory");
    EXPECT_EQ(e.line(), line);
    EXPECT_TRUE(std::string_view(e.file()).ends_with("require_call_test.cpp")) << e.file();
  }
}

TEST(RequireCall, DoesNothingAfterACallThatSucceeded) {
  errno = EISDIR;
  EXPECT_NO_THROW(require_call(true, "open"));
}

}  // namespace
}  // namespace trireme
