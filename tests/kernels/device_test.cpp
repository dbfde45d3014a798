#include "trireme/kernels/device.h"

#include <gtest/gtest.h>

namespace trireme {
namespace {

TEST(CpuDevice, Opens) { EXPECT_EQ(open_cpu()->kind(), DeviceKind::cpu); }

}  // namespace
}  // namespace trireme
