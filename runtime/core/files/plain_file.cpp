#include "runtime/core/files/plain_file.h"

#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trireme/core/error.h"

namespace trireme {
namespace {

std::string what_is(mode_t mode) {
  if (S_ISREG(mode)) return "";
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a pipe";
  return S_ISSOCK(mode) ? "a socket" : "a device";
}

}  // namespace

int open_plain_file(const std::string& path, int flags, mode_t mode) {
  constexpr int always = O_CLOEXEC | O_NONBLOCK | O_NOCTTY;  // waits for no pipe
  int file = -1;
  do {
    file = ::open(path.c_str(), flags | always, mode);
  } while (file < 0 && errno == EINTR);
  const int reason = errno;
  struct stat status {};
  const bool known = (file < 0 ? ::stat(path.c_str(), &status) : ::fstat(file, &status)) == 0;
  const std::string other = known ? what_is(status.st_mode) : "";
  if (!other.empty() && file >= 0) ::close(file);
  require(other.empty(), path, ": is ", other, ", but a file is needed here");
  errno = reason;
  return file;
}

std::string what_is_no_plain_file(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? what_is(status.st_mode) : "";
}

}  // namespace trireme
