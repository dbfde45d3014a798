#include "runtime/core/process/private_directory.h"

#include <filesystem>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/message_of.h"
#include "tests/support/scratch_directory.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

constexpr uid_t other = 12345;

class PrivateDirectories : public testing::Test {
 protected:
  PrivateDirectories() : shared_(folder_ / "shared"), path_(shared_ + "/trireme-k") {
    fs::create_directory(shared_);
    ::chmod(shared_.c_str(), 01777);
  }
  /// What another user could have made there; false where this user cannot make it look so.
  static bool give_away(const std::string& path) {
    return ::geteuid() == 0 && ::lchown(path.c_str(), other, other) == 0;
  }
  static mode_t mode_of(const std::string& path) {
    struct stat status {};
    return ::stat(path.c_str(), &status) == 0 ? status.st_mode & 07777 : 0;
  }

  ScratchDirectory folder_;
  std::string shared_, path_;
};

TEST_F(PrivateDirectories, AreEnteredByTheirUserOnlyAndTakenAgain) {
  make_private_directory(path_ + "/pages");
  EXPECT_EQ(mode_of(path_), 0700U);
  EXPECT_EQ(mode_of(path_ + "/pages"), 0700U);
  EXPECT_NO_THROW(make_private_directory(path_ + "/pages"));
  EXPECT_TRUE(is_private_directory(path_));
  EXPECT_FALSE(is_private_directory(path_, other));
  EXPECT_EQ(private_path(path_), path_);
}

TEST_F(PrivateDirectories, AreNoLinksFilesOrDirectoriesInWhichOthersWrite) {
  const auto refused_with = [&](const std::string& reason) {
    EXPECT_FALSE(is_private_directory(path_));
    EXPECT_THAT(message_of([&] { make_private_directory(path_); }),
                HasSubstr("trireme-k: is not used, as " + reason));
    EXPECT_EQ(private_path(path_), path_ + ".2");
    fs::remove(path_);
  };
  fs::create_directory(folder_ / "elsewhere");
  fs::create_directory_symlink(folder_ / "elsewhere", path_);
  refused_with("it is a link");
  fs::create_symlink("/nowhere", path_);
  refused_with("it is a link");
  folder_.write("shared/trireme-k", "");
  refused_with("it is no directory");
  for (const mode_t mode : {0720, 0702}) {
    fs::create_directory(path_);
    ::chmod(path_.c_str(), mode);
    refused_with("other users can write in it");
  }
}

TEST_F(PrivateDirectories, AreNotThoseOfAnotherUserNorBelowThem) {
  fs::create_directory(path_);
  if (!give_away(path_)) GTEST_SKIP() << "only root can give a directory away";
  EXPECT_THAT(message_of([&] { make_private_directory(path_); }),
              HasSubstr("it belongs to another user, of id 12345"));
  EXPECT_THAT(message_of([&] { make_private_directory(path_ + "/pages"); }),
              HasSubstr("trireme-k belongs to another user, of id 12345"));
  EXPECT_FALSE(fs::exists(path_ + "/pages"));
  EXPECT_THAT(private_directories(path_), IsEmpty());
  EXPECT_THAT(private_directories(path_, other), ElementsAre(path_));
  // A directory that was given to a user, as a disk for a project, is where its giver put it.
  ::chmod(shared_.c_str(), 0755);
  EXPECT_NO_THROW(make_private_directory(path_ + "/pages"));
}

TEST_F(PrivateDirectories, HaveOtherNamesWhereTheirsIsTaken) {
  fs::create_symlink("/nowhere", path_);
  fs::create_symlink("/nowhere", path_ + ".2");
  make_private_directory(private_path(path_));
  EXPECT_TRUE(is_private_directory(path_ + ".3"));
  fs::remove(path_);  // the one that is there stays the one
  EXPECT_EQ(private_path(path_), path_ + ".3");
  fs::remove(path_ + ".3");
  fs::create_symlink("/nowhere", path_);
  for (int number = 3; number < 10; ++number)
    fs::create_symlink("/nowhere", path_ + "." + std::to_string(number));
  EXPECT_THAT(message_of([&] { private_path(path_); }),
              HasSubstr("trireme-k.9: none is used; of the first, it is a link"));
}

TEST_F(PrivateDirectories, HaveNamesThatOthersCannotForeseeWhereTheyAreNew) {
  const std::string one = make_new_private_directory(path_ + "-a1"),
                    two = make_new_private_directory(path_ + "-a1");
  EXPECT_NE(one, two);
  EXPECT_THAT(one, StartsWith(path_ + "-a1-"));
  EXPECT_EQ(mode_of(one), 0700U);
  fs::create_symlink("/nowhere", path_ + "-a1-link");
  fs::create_directory(path_ + "-a12");
  EXPECT_THAT(private_directories(path_ + "-a1-"), testing::UnorderedElementsAre(one, two));
  EXPECT_THAT(message_of([&] { make_new_private_directory(folder_ / "nowhere/name"); }),
              HasSubstr("nowhere: No such file or directory"));
}

}  // namespace
}  // namespace trireme
