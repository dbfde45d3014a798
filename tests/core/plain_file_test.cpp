// What is no plain file is named at once, however it is opened.
#include "runtime/core/files/plain_file.h"

#include <cerrno>
#include <filesystem>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "tests/support/message_of.h"
#include "tests/support/scratch_directory.h"

namespace trireme {
namespace {

constexpr int ways_to_open[] = {O_RDONLY, O_WRONLY, O_RDWR, O_WRONLY | O_CREAT | O_APPEND,
                                O_RDWR | O_CREAT | O_EXCL};

void make_socket(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(path.size(), sizeof address.sun_path);
  path.copy(address.sun_path, path.size());
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_EQ(::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ::close(socket);
}

TEST(PlainFile, IsNeitherAPipeNorADirectoryNorASocketNorADevice) {
  const ScratchDirectory folder;
  const std::string pipe = folder / "pipe", directory = folder / "directory",
                    socket = folder / "socket", link = folder / "link";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::filesystem::create_directory(directory);
  std::filesystem::create_symlink(pipe, link);
  make_socket(socket);
  for (const auto& [path, what] :
       {std::pair(pipe, std::string("a pipe")), std::pair(link, std::string("a pipe")),
        std::pair(directory, std::string("a directory")),
        std::pair(socket, std::string("a socket")),
        std::pair(std::string("/dev/null"), std::string("a device"))}) {
    EXPECT_EQ(what_is_no_plain_file(path), what);
    for (const int flags : ways_to_open)
      EXPECT_EQ(message_of([&, p = path] { open_plain_file(p, flags); }),
                str(path, ": is ", what, ", but a file is needed here"));
  }
}

TEST(PlainFile, IsOpenedAsTheOperatingSystemDoes) {
  const ScratchDirectory folder;
  const std::string path = folder / "file";
  EXPECT_EQ(open_plain_file(path, O_RDONLY), -1);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(what_is_no_plain_file(path), "");
  const int made = open_plain_file(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
  EXPECT_EQ(::write(made, "text", 4), 4);
  ::close(made);
  EXPECT_EQ(open_plain_file(path, O_WRONLY | O_CREAT | O_EXCL), -1);
  EXPECT_EQ(errno, EEXIST);
  EXPECT_EQ(what_is_no_plain_file(path), "");
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
}

}  // namespace
}  // namespace trireme
