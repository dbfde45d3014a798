#include "launch/supervisor/machine/processes.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/message_of.h"

namespace trireme::supervisor {
namespace {

TEST(Processes, AProgramThatIsMissingInABuildDirectoryNamesItsTarget) {
  const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  EXPECT_EQ(message_of([] { program_of_trireme("trireme_missing"); }),
            (here / "trireme_missing").string() + " is not there; it is built by: cmake --build " +
                here.parent_path().string() + " --target programs");
}

}  // namespace
}  // namespace trireme::supervisor
