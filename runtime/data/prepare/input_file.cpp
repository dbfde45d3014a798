#include "runtime/data/prepare/input_file.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/core/require_call.h"

namespace trireme::data {
namespace {

constexpr std::size_t buffer_bytes = 1 << 18;
const std::string standard_input = "-";

std::string shown(const std::string& path) {
  return path == standard_input ? "standard input" : path;
}

struct stat status_of(const std::string& path) {
  struct stat status {};
  const int failed =
      path == standard_input ? ::fstat(STDIN_FILENO, &status) : ::stat(path.c_str(), &status);
  require_call(failed == 0, shown(path), ": cannot be opened");
  return status;
}

}  // namespace

Interruption::Interruption(int file) : outer_(file), inner_(::eventfd(0, EFD_CLOEXEC)) {
  require_call(inner_ >= 0, "eventfd");
}
Interruption::~Interruption() { ::close(inner_); }

void Interruption::interrupt() {
  const std::uint64_t one = 1;
  require_call(::write(inner_, &one, sizeof one) == sizeof one, "eventfd");
}

void Interruption::wait_for(int descriptor) const {
  pollfd files[] = {{descriptor, POLLIN, 0}, {inner_, POLLIN, 0}, {outer_, POLLIN, 0}};
  while (::poll(files, 3, -1) < 0) require_call(errno == EINTR, "poll");
  require(files[1].revents == 0 && files[2].revents == 0, "interrupted");
}

void Interruption::check() const {
  pollfd files[] = {{inner_, POLLIN, 0}, {outer_, POLLIN, 0}};
  int ready = 0;
  while ((ready = ::poll(files, 2, 0)) < 0) require_call(errno == EINTR, "poll");
  require(ready == 0, "interrupted");
}

// A pipe with a name opens at once, even if its writer is not there yet; poll then waits for it.
InputFile::InputFile(const std::string& path, const Interruption& interruption)
    : name_(shown(path)),
      interruption_(interruption),
      buffer_(buffer_bytes),
      descriptor_(path == standard_input
                      ? STDIN_FILENO
                      : ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  require_call(descriptor_ >= 0, name_, ": cannot be opened");
}

InputFile::~InputFile() {
  if (descriptor_ != STDIN_FILENO) ::close(descriptor_);
}

bool InputFile::read_more() {
  while (true) {
    interruption_.wait_for(descriptor_);
    const ssize_t got = ::read(descriptor_, buffer_.data() + filled_, buffer_.size() - filled_);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    require_call(got >= 0, name_, ": cannot be read");
    filled_ += static_cast<std::size_t>(got);
    return got > 0;
  }
}

std::string_view InputFile::peek(std::size_t bytes) {
  while (filled_ < bytes && read_more()) {
  }
  return {buffer_.data(), filled_};
}

std::string_view InputFile::next() {
  if (filled_ == 0) read_more();
  const std::size_t bytes = std::exchange(filled_, 0);
  position_ += static_cast<Index>(bytes);
  return {buffer_.data(), bytes};
}

Index check_input(const std::string& path) {
  const struct stat status = status_of(path);
  if (S_ISFIFO(status.st_mode) || S_ISCHR(status.st_mode) || S_ISSOCK(status.st_mode)) return 0;
  require(S_ISREG(status.st_mode), shown(path), ": is neither a file nor a pipe");
  require(status.st_size > 0, shown(path), ": is empty; leave it out");
  require_call(path == standard_input || ::access(path.c_str(), R_OK) == 0, path,
               ": cannot be opened");
  return status.st_size;
}

}  // namespace trireme::data
