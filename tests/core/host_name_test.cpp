// The name of this machine is that of the kernel.
#include <fstream>

#include <gtest/gtest.h>

#include "runtime/core/process/this_machine.h"

namespace trireme {
namespace {

TEST(HostName, IsThatOfTheKernel) {
  std::ifstream in("/proc/sys/kernel/hostname");
  std::string name;
  ASSERT_TRUE(std::getline(in, name));
  EXPECT_EQ(host_name(), name);
}

}  // namespace
}  // namespace trireme
