// No option writes a file that another one reads or writes, by whatever name.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/options/gpt_command_line.h"
#include "tests/support/scratch_directory.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

struct FileOption {
  std::string name, ending;  // of a file that it names
};
const std::vector<FileOption> writing_options = {{"--metrics", ""},
                                                 {"--profile-ops", ""},
                                                 {"--output", ""},
                                                 {"--dump-tensors", ".gradients.f32"}};
const std::vector<FileOption> reading_options = {
    {"--config", ""},    {"--load", ""},    {"--load-hf", ""},      {"--plan-profile", ""},
    {"--tokenizer", ""}, {"--prompts", ""}, {"--data-path", ".idx"}};

class Outputs : public testing::Test {
 protected:
  /// A value with which the option names folder_/name.
  std::string value(const FileOption& option, const std::string& name) const {
    const std::string path = folder_ / name;
    return path.substr(0, path.size() - option.ending.size());
  }
  std::vector<std::string> problems(const FileOption& writes, const std::string& name,
                                    const FileOption& other, const std::string& its) const {
    return problems_of("--generate 1 " + writes.name + " " + value(writes, name) + " " +
                           other.name + " " + value(other, its),
                       1);
  }
  static auto replaces(const FileOption& writes, const FileOption& other) {
    return Contains(testing::AllOf(testing::StartsWith(writes.name + " "),
                                   HasSubstr(" would replace the file of " + other.name)));
  }
  ScratchDirectory folder_;
};

TEST_F(Outputs, AreNoInputOfAnotherOption) {
  for (const FileOption& in : reading_options)
    for (const FileOption& out : writing_options) {
      const std::string name = "in" + in.ending, link = "link" + out.ending;
      folder_.write(name, "");
      fs::create_hard_link(folder_ / name, folder_ / link);
      EXPECT_THAT(problems(out, link, in, name), replaces(out, in)) << out.name << in.name;
      fs::remove(folder_ / link);
      fs::create_symlink(folder_ / name, folder_ / link);
      EXPECT_THAT(problems(out, link, in, name), replaces(out, in)) << out.name << in.name;
      fs::remove(folder_ / link);
      EXPECT_THAT(problems(out, link, in, name), Not(replaces(out, in))) << out.name << in.name;
      if (out.ending == in.ending) {
        EXPECT_THAT(problems(out, name, in, name), replaces(out, in)) << out.name << in.name;
      }
    }
}

TEST_F(Outputs, OfTwoOptionsAreTwoFiles) {
  for (const FileOption& out : writing_options)
    for (const FileOption& other : writing_options) {
      if (&out == &other || out.ending != other.ending) continue;
      const bool later = &out > &other;
      EXPECT_THAT(problems(out, "same", other, "same"),
                  later ? replaces(out, other) : replaces(other, out));
      EXPECT_THAT(problems(out, "one", other, "two"), Not(Contains(HasSubstr("would replace"))));
    }
}

TEST_F(Outputs, ThatAreStreamsAreShared) {
  EXPECT_THAT(problems_of("--metrics /dev/stdout --profile-ops /dev/stdout", 1),
              Not(Contains(HasSubstr("would replace"))));
}

}  // namespace
}  // namespace trireme
