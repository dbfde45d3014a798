// Ranks have the memory that is planned for them: a short form of a nightly benchmark.
#include <cstdlib>

#include <gtest/gtest.h>

namespace trireme::test {
namespace {

TEST(PlannedMemory, IsWhatRanksHave) {
  EXPECT_EQ(
      std::system(TRIREME_PYTHON " " TRIREME_SOURCE_DIR
                                 "/tests/benchmarks/planned_memory.py --build " TRIREME_BIN_DIR
                                 "/.. --layouts 2 --steps 2"),
      0);
}

}  // namespace
}  // namespace trireme::test
