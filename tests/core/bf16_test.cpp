// Conversion between bf16 and float.
#include "trireme/core/bf16.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(Bf16, EveryPatternSurvivesTheWayThroughFloat) {
  for (int bits = 0; bits < 65536; ++bits) {
    const Bf16 x{static_cast<std::uint16_t>(bits)};
    if (std::isnan(to_float(x)))
      EXPECT_TRUE(std::isnan(to_float(to_bf16(to_float(x))))) << bits;
    else
      EXPECT_EQ(to_bf16(to_float(x)).bits, x.bits) << bits;
  }
}

TEST(Bf16, RoundsToNearestAndTiesToEven) {
  const float step = 1.0f / 128;  // between neighbours in [1, 2)
  EXPECT_EQ(to_float(to_bf16(1 + step / 2)), 1);
  EXPECT_EQ(to_float(to_bf16(1 + step * 3 / 2)), 1 + 2 * step);
  EXPECT_EQ(to_float(to_bf16(std::nextafter(1 + step / 2, 2.0f))), 1 + step);
  EXPECT_EQ(to_float(to_bf16(-1 - step * 0.75f)), -1 - step);
  EXPECT_EQ(to_float(to_bf16(std::numeric_limits<float>::max())),
            std::numeric_limits<float>::infinity());
}

TEST(Bf16, ANaNWhosePayloadIsCutOffStaysOne) {
  EXPECT_TRUE(std::isnan(to_float(to_bf16(std::bit_cast<float>(0x7f800001u)))));
}

}  // namespace
}  // namespace trireme
