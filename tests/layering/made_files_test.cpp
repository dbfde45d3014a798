#include "tests/layering/made_files.h"

#include <filesystem>

#include <gtest/gtest.h>

namespace trireme::layering {
namespace {

TEST(MadeFiles, AreFoundInCodeAndNotInWords) {
  const auto found = made_files_of(R"x(// std::ofstream
std::ofstream out(path);
say("File::create");
const int file = ::open(path, O_WRONLY | O_CREAT);
File::create(path).close();
)x");
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found[0].line, 2);
  EXPECT_EQ(found[1].call, "O_CREAT");
  EXPECT_EQ(found[2].line, 5);
}

TEST(MadeFiles, AreOfSourcesThatAreThere) {
  for (const auto& [source, files] : makers_of_files())
    EXPECT_TRUE(std::filesystem::exists(std::string(TRIREME_SOURCE_DIR "/") + source))
        << source << ": " << files;
}

}  // namespace
}  // namespace trireme::layering
