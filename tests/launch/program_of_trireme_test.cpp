#include "launch/program_of_trireme.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/message_of.h"

namespace trireme {
namespace {

TEST(ProgramOfTrireme, ThatIsMissingInABuildDirectoryNamesItsTarget) {
  const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  EXPECT_EQ(message_of([] { program_of_trireme("trireme_missing"); }),
            (here / "trireme_missing").string() + " is not there; it is built by: cmake --build " +
                here.parent_path().string() + " --target programs");
}

}  // namespace
}  // namespace trireme
