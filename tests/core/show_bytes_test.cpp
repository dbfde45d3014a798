// Numbers of bytes as users read them.
#include "runtime/core/show_bytes.h"

#include <limits>

#include <gtest/gtest.h>

namespace trireme {
namespace {

constexpr Index kib = 1024, mib = kib * 1024, gib = mib * 1024;

TEST(ShowBytes, HasAUnitThatKeepsTheNumberShort) {
  EXPECT_EQ(show_bytes(0), "0 B");
  EXPECT_EQ(show_bytes(1023), "1023 B");
  EXPECT_EQ(show_bytes(kib), "1.0 KiB");
  EXPECT_EQ(show_bytes(12 * mib + 400 * kib), "12.4 MiB");
  EXPECT_EQ(show_bytes(3 * gib / 2), "1.50 GiB");
  EXPECT_EQ(show_bytes(gib * 1024), "1.00 TiB");
  EXPECT_EQ(show_bytes(std::numeric_limits<Index>::max()), "8.00 EiB");
}

TEST(ShowBytes, RoundsIntoTheNextUnit) {
  EXPECT_EQ(show_bytes(mib - 1), "1.0 MiB");
  EXPECT_EQ(show_bytes(gib - 1), "1.00 GiB");
  EXPECT_EQ(show_bytes(1024 * gib - 1), "1.00 TiB");
  EXPECT_EQ(show_bytes(1023 * gib), "1023.00 GiB");
}

}  // namespace
}  // namespace trireme
