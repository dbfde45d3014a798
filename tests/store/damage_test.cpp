// Damage: whatever happens to the bytes of a checkpoint is found before they are used: files cut at
// every byte, flipped bits over all files, files of another step, files that are missing or too
// many.
#include <algorithm>
#include <filesystem>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/store/file.h"
#include "runtime/store/read/reader.h"
#include "runtime/store/steps.h"
#include "tests/support/scratch_directory.h"
#include "tests/support/toy_checkpoint.h"

namespace trireme::test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr Index file_limit = Index{1} << 30;

/// What reading the step would be refused with; empty: all holds.
std::vector<std::string> problems_of(const std::string& directory) {
  try {
    return verify_step(directory, read_manifest(directory), 1);
  } catch (const Error& error) {
    return {error.what()};
  }
}

class Descriptor {
 public:
  explicit Descriptor(const std::string& path)
      : path_(path), fd_(::open(path.c_str(), O_RDWR | O_CLOEXEC)) {
    require(fd_ >= 0, path, " cannot be opened");
  }
  ~Descriptor() { ::close(fd_); }
  Descriptor(const Descriptor&) = delete;
  void write(Index at, const void* data, Index bytes) const {
    require(::pwrite(fd_, data, static_cast<std::size_t>(bytes), at) == bytes, path_, ": pwrite");
  }
  void truncate(Index bytes) const { require(::ftruncate(fd_, bytes) == 0, path_, ": ftruncate"); }

 private:
  std::string path_;
  int fd_;
};

/// A committed step of two shards, in memory where that is possible: thousands of changes are not
/// for a disk.
struct Step {
  Step() : directory(commit_toy(folder / "run", 120, ToyState(), {ToyLayout::Cut::rows, 2})) {
    names = list_directory(directory);
    for (const std::string& name : names) contents.push_back(read_whole(path(name), file_limit));
  }
  std::string path(const std::string& name) const { return directory + "/" + name; }

  ScratchDirectory folder{ScratchDirectory::in_memory()};
  std::string directory;
  std::vector<std::string> names, contents;
};

TEST(Damage, ByCuttingAnyFileAtAnyByteIsFound) {
  const Step step;
  EXPECT_THAT(problems_of(step.directory), IsEmpty());
  Index cuts = 0, unseen = 0;
  for (std::size_t f = 0; f < step.names.size(); ++f) {
    const std::string& content = step.contents[f];
    const Descriptor file(step.path(step.names[f]));
    for (Index bytes = static_cast<Index>(content.size()); bytes-- > 0; ++cuts) {
      file.truncate(bytes);
      const auto problems = problems_of(step.directory);
      unseen += problems.empty() || problems[0].find(step.names[f]) == std::string::npos;
    }
    file.write(0, content.data(), static_cast<Index>(content.size()));
    file.truncate(static_cast<Index>(content.size()) + 1);
    EXPECT_THAT(problems_of(step.directory), ElementsAre(HasSubstr(step.names[f])));
    file.truncate(static_cast<Index>(content.size()));
  }
  RecordProperty("cuts", static_cast<int>(cuts));
  EXPECT_EQ(unseen, 0) << "of " << cuts;
  EXPECT_THAT(problems_of(step.directory), IsEmpty());
}

TEST(Damage, ByOneFlippedBitAnywhereIsFound) {
  const Step step;
  Index total = 0;
  for (const std::string& content : step.contents) total += static_cast<Index>(content.size()) * 8;
  const Index stride = std::max<Index>(1, total / 10000);
  Index flips = 0, unseen = 0, at = 0;  // `at` counts bits over all files
  for (std::size_t f = 0; f < step.names.size(); ++f) {
    const std::string& content = step.contents[f];
    const Index bits = static_cast<Index>(content.size()) * 8;
    const Descriptor file(step.path(step.names[f]));
    for (; at < bits; at += stride, ++flips) {
      const char original = content[static_cast<std::size_t>(at / 8)];
      const char flipped = static_cast<char>(original ^ (1 << at % 8));
      file.write(at / 8, &flipped, 1);
      const auto problems = problems_of(step.directory);
      unseen += problems.empty() || problems[0].find(step.names[f]) == std::string::npos;
      file.write(at / 8, &original, 1);
    }
    at -= bits;
  }
  RecordProperty("flips", static_cast<int>(flips));
  EXPECT_GE(flips, 10000);
  EXPECT_EQ(unseen, 0) << "of " << flips;
  EXPECT_THAT(problems_of(step.directory), IsEmpty());
}

TEST(Damage, IsFoundInAShardOfAnotherStepAndItsTensorNamed) {
  const Step step;
  ToyState later;
  later["parameters/wte"].at<float>(0) += 1;
  const std::string other = commit_toy(step.folder / "run", 140, later, {ToyLayout::Cut::rows, 2});
  remove_file(step.path("shard-00000.h5"));
  write_whole(step.path("shard-00000.h5"), read_whole(other + "/shard-00000.h5", file_limit));
  EXPECT_THAT(problems_of(step.directory),
              ElementsAre(AllOf(HasSubstr("shard-00000.h5"), HasSubstr("parameters/wte"))));
}

TEST(Damage, IsAFileMissingOrTooMany) {
  const Step step;
  write_whole(step.path("shard-00002.h5"), "foreign");
  EXPECT_THAT(problems_of(step.directory), ElementsAre(HasSubstr("shard-00002.h5")));
  for (const std::string& name : step.names) {
    rename_path(step.path(name), step.path("away"));
    EXPECT_THAT(problems_of(step.directory), Contains(HasSubstr(name)));
    rename_path(step.path("away"), step.path(name));
  }
}

}  // namespace
}  // namespace trireme::test
