// What stands at the path of an output: it is replaced where it is of the kind that is written, and
// refused by name otherwise.
#include "runtime/core/output/output_file.h"

#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "tests/support/scratch_directory.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;

constexpr uid_t stranger = 12345;
constexpr OutputKind text{"a list", "list:", R"( \d+\n)", true};
constexpr OutputKind table{"a table", "table\n"};

class OutputFile : public testing::Test {
 protected:
  std::string why(const std::string& name, const OutputKind& kind = table) const {
    std::string found = why_no_output(folder_ / name, kind);
    for (std::size_t at; (at = found.find(folder_.path())) != std::string::npos;)
      found.replace(at, folder_.path().size(), "DIR");
    return found;
  }
  ScratchDirectory folder_;
};

TEST_F(OutputFile, MayBeNewEmptyOrOfItsKind) {
  EXPECT_EQ(why("new"), "");
  folder_.write("empty", "");
  EXPECT_EQ(why("empty"), "");
  folder_.write("own", "table\n1 2 3");
  EXPECT_EQ(why("own"), "");
  folder_.write("cut short", "tab");  // by a crash
  EXPECT_EQ(why("cut short"), "");
  folder_.write("list", "list: 12\nmore");
  EXPECT_EQ(why("list", text), "");
}

TEST_F(OutputFile, IsRefusedWhereAnotherFileHasItsName) {
  const char* const refused = "exists, and is not a table; remove it, or give another name";
  for (const char* content : {"notes", "tabula", "table 1", "list: 12\n"}) {
    folder_.write("foreign", content);
    EXPECT_EQ(why("foreign"), refused) << content;
  }
  folder_.write("list", "list: of things\n");
  EXPECT_EQ(why("list", text), "exists, and is not a list; remove it, or give another name");
  folder_.write("any", "");
  EXPECT_EQ(why("any", outputs::new_file), "exists already; remove it, or give another name");
  EXPECT_STREQ(kind_beside(folder_ / "any").mark, "");
  EXPECT_EQ(kind_beside(folder_ / "none").mark, nullptr);
}

TEST_F(OutputFile, IsRefusedWhereItsNameIsOfNoFile) {
  fs::create_directory(folder_ / "sub");
  EXPECT_EQ(why("sub"), "is a directory; a file name is needed");
  EXPECT_EQ(why("new/"), "is a directory; a file name is needed");
  EXPECT_EQ(why("none/x"), "there is no directory DIR/none");
  folder_.write("file", "table\n");
  EXPECT_EQ(why("file/x"), "there is no directory DIR/file");
  fs::create_symlink("nowhere", folder_ / "dangling");
  EXPECT_EQ(why("dangling"), "is a link to nowhere, which is not there");
  fs::create_symlink("loop", folder_ / "loop");
  EXPECT_THAT(why("loop"), StartsWith("is a link to loop: Too many levels"));
  fs::create_symlink("file", folder_ / "link");
  EXPECT_EQ(why("link"), "");
  EXPECT_EQ(behind_links(folder_ / "link"), fs::canonical(folder_ / "file").string());
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, (folder_ / "socket").c_str(), sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(why("socket", text), "is no plain file; another name is needed");
  ::close(socket);
}

TEST_F(OutputFile, OfTextMayBeAPipeOrADevice) {
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(why("pipe"), "is a pipe or a device; a file name is needed");
  EXPECT_EQ(why("pipe", text), "");
  EXPECT_TRUE(is_stream(folder_ / "pipe"));
  EXPECT_THAT(message_of([&] { open_output(folder_ / "pipe", text); }),
              HasSubstr("pipe: is a pipe that no program reads"));
  EXPECT_EQ(why_no_output("/dev/full", table), "is a pipe or a device; a file name is needed");
  EXPECT_EQ(why_no_output("/dev/null", text), "");
  EXPECT_EQ(why_no_output("/dev/stderr", text), "");
  EXPECT_EQ(why_no_output("/dev/stderr", table),
            "is a stream of this process; a file name is needed");
  EXPECT_EQ(why_no_output("/dev/fd/999", text), "is not open");
  const int copy = open_output("/dev/stderr", text);
  EXPECT_GT(copy, STDERR_FILENO);
  ::close(copy);
}

TEST_F(OutputFile, IsOpenedToAppendAndRefusedAgainWhereItHasChanged) {
  const std::string path = folder_.write("list", "list: 1\n");
  fs::create_symlink("list", folder_ / "link");
  const int file = open_output(folder_ / "link", text);
  EXPECT_EQ(::write(file, "2\n", 2), 2);
  ::close(file);
  EXPECT_EQ(folder_.read("list"), "list: 1\n2\n");
  folder_.write("list", "notes");
  EXPECT_THAT(message_of([&] { open_output(path, text); }), HasSubstr("is not a list"));
  ::close(open_output(folder_ / "new", text));
  EXPECT_EQ(folder_.read("new"), "");
}

TEST_F(OutputFile, NeedsTheRightToWriteAndToReadWhatIsThere) {
  folder_.write("own", "table\n");
  const std::string path = folder_ / "own", folder = folder_.path();
  ::chmod(folder.c_str(), 0755);
  EXPECT_EXIT(
      {
        if (::geteuid() == 0 && ::setresuid(stranger, stranger, stranger) != 0) ::_exit(1);
        std::fprintf(stderr, "%s\n%s", why_no_output(path, table).c_str(),
                     why_no_output(folder + "/new", table).c_str());
        ::_exit(0);
      },
      testing::ExitedWithCode(0), "cannot be written to: Permission denied\nthe directory");
}

/// As protected_symlinks and protected_regular of the kernel, which may be off.
TEST_F(OutputFile, OfAnotherUserInASharedDirectoryIsNotUsed) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can act for another user";
  const std::string folder = folder_ / "shared";
  fs::create_directory(folder);
  ::chmod(folder.c_str(), 01777);
  folder_.write("shared/own", "table\n");
  EXPECT_EQ(why("shared/own"), "");
  ::chown((folder + "/own").c_str(), stranger, stranger);
  const char* const planted = "belongs to another user, of id 12345, and all users can write in ";
  EXPECT_THAT(why("shared/own"), StartsWith(planted));
  folder_.write("mine", "table\n");
  fs::create_symlink(folder_ / "mine", folder + "/link");
  EXPECT_EQ(why("shared/link"), "");
  ::lchown((folder + "/link").c_str(), stranger, stranger);
  EXPECT_THAT(why("shared/link"), StartsWith(planted));
}

TEST_F(OutputFile, DirectoriesExistOrCanBeMade) {
  const auto no_directory = [&](const std::string& name) {
    return why_no_output_directory(folder_ / name);
  };
  EXPECT_EQ(no_directory(""), "");
  EXPECT_EQ(no_directory("new"), "");
  EXPECT_THAT(no_directory("none/new"), StartsWith("there is no directory "));
  folder_.write("file", "");
  EXPECT_EQ(no_directory("file"), "is a file; a directory is needed");
  fs::create_symlink("/nowhere/x", folder_ / "link");
  EXPECT_EQ(no_directory("link"), "is a link to /nowhere/x, which is not there");
}

TEST_F(OutputFile, SamePlacesAreFoundHoweverTheyAreWritten) {
  const std::string file = folder_.write("file", "");
  fs::create_symlink("file", folder_ / "link");
  fs::create_hard_link(file, folder_ / "hard");
  for (const char* name : {"file", "./file", "link", "hard"})
    EXPECT_TRUE(same_place(file, folder_ / name)) << name;
  EXPECT_FALSE(same_place(file, folder_ / "other"));
  EXPECT_TRUE(same_place(folder_ / "new", folder_ / "sub/../new"));
}

}  // namespace
}  // namespace trireme
