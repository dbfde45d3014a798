// A change of one family of kernels, or of the learning rate, compiles few sources again.
#include "tests/layering/fan_in.h"

#include <filesystem>
#include <fstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace trireme::layering {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(FanIn, IsSmallInThisRepository) {
  EXPECT_THAT(crowded_headers(TRIREME_SOURCE_DIR), IsEmpty());
}

/// A tree of files in a scratch directory.
class FanInOfATree : public testing::Test {
 protected:
  ~FanInOfATree() override { std::filesystem::remove_all(root_); }
  void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  void write_sources(int count, const std::string& text) {
    for (int i = 0; i < count; ++i) write("runtime/nn/source" + std::to_string(i) + ".cpp", text);
  }
  // One for each test: they run at the same time.
  const std::filesystem::path root_ =
      std::filesystem::path(testing::TempDir()) /
      (std::string("layering_") + testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(FanInOfATree, CountsSourcesThroughHeadersOfEveryFolder) {
  write("include/trireme/kernels/scale.h", "struct ScaleKernels {\n};\n");
  write("runtime/nn/helper.h", "#include \"trireme/kernels/scale.h\"\n#include \"helper.h\"\n");
  write("runtime/nn/scale.cpp", "#include \"helper.h\"\n");
  write("kernels/cuda/scale.cu", "#  include \"runtime/nn/helper.h\"\n");
  write("tests/nn/other_test.cpp", "#include <string>\n");
  EXPECT_THAT(sources_by_header(root_).at("include/trireme/kernels/scale.h"),
              ElementsAre("kernels/cuda/scale.cu", "runtime/nn/scale.cpp"));
}

TEST_F(FanInOfATree, OfAKernelFamilyIsBelow25) {
  write("include/trireme/kernels/scale.h", "struct ScaleKernels {\n};\n");
  write("include/trireme/kernels/kernels.h", "#include \"trireme/kernels/scale.h\"\n");
  write_sources(24, "#include \"trireme/kernels/kernels.h\"\n");
  EXPECT_THAT(crowded_headers(root_), IsEmpty());
  write_sources(25, "#include \"trireme/kernels/kernels.h\"\n");
  EXPECT_THAT(
      crowded_headers(root_),
      ElementsAre("include/trireme/kernels/scale.h: 25 sources include it, must be below 25"));
}

TEST_F(FanInOfATree, OfTheLearningRateIsBelow10) {
  write("runtime/optim/learning_rate.h", "class LearningRate;\n");
  write_sources(9, "#include \"runtime/optim/learning_rate.h\"\n");
  EXPECT_THAT(crowded_headers(root_), IsEmpty());
  write_sources(10, "#include \"runtime/optim/learning_rate.h\"\n");
  EXPECT_THAT(crowded_headers(root_), SizeIs(1));
}

}  // namespace
}  // namespace trireme::layering
