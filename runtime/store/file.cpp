// An open file: transfers that are interrupted, cut short or refused with O_DIRECT are continued
// here, and nowhere else.
#include "runtime/store/file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/core/files/plain_file.h"
#include "runtime/core/show_bytes.h"
#include "runtime/store/system_call.h"

namespace trireme {

using namespace store;

namespace {

Index align_down(Index bytes) { return bytes - bytes % File::direct_alignment; }

}  // namespace

File::File(std::string path, int descriptor, Caching caching)
    : path_(std::move(path)), descriptor_(descriptor), caching_(caching) {}

File::File(File&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      caching_(other.caching()) {}

File& File::operator=(File&& other) noexcept {
  if (this != &other) {
    if (descriptor_ >= 0) ::close(descriptor_);
    path_ = std::move(other.path_);
    descriptor_ = std::exchange(other.descriptor_, -1);
    caching_ = other.caching();
  }
  return *this;
}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

File File::create(const std::string& path, Caching caching) {
  return open_with(path, O_WRONLY | O_CREAT | O_EXCL, caching);
}

File File::open(const std::string& path, Caching caching) {
  return open_with(path, O_RDONLY, caching);
}

File File::open_to_write(const std::string& path, Caching caching) {
  return open_with(path, O_WRONLY, caching);
}

File File::open_with(const std::string& path, int flags, Caching caching) {
  const auto attempt = [&](int more) { return open_plain_file(path, flags | more); };
  int descriptor = attempt(caching == Caching::direct ? O_DIRECT : 0);
  if (descriptor < 0 && errno == EINVAL && caching == Caching::direct) {
    caching = Caching::buffered;
    flags &= ~O_EXCL;  // Linux refuses O_DIRECT after it has created the file
    descriptor = attempt(0);
  }
  check_call(descriptor, path, "open");
  return File(path, descriptor, caching);
}

// Some file systems take O_DIRECT at open and refuse the first transfer. Threads may come here
// together.
bool File::fall_back(Caching used) const {
  if (errno != EINVAL || used != Caching::direct) return false;
  const int flags = check_call(::fcntl(descriptor_, F_GETFL), path_, "fcntl");
  check_call(::fcntl(descriptor_, F_SETFL, flags & ~O_DIRECT), path_, "fcntl");
  caching_ = Caching::buffered;
  return true;
}

Index File::size() const {
  struct stat status {};
  check_call(::fstat(descriptor_, &status), path_, "fstat");
  return status.st_size;
}

bool File::reserve(Index bytes) const {
  if (bytes == 0) return true;
  if (repeat_interrupted([&] { return ::fallocate(descriptor_, 0, 0, bytes); }) == 0) return true;
  if (errno == EOPNOTSUPP || errno == ENOSYS) return false;
  const int reason = errno;
  struct statvfs system {};
  const bool known = reason == ENOSPC && ::fstatvfs(descriptor_, &system) == 0;
  const Index free = static_cast<Index>(system.f_bavail) * static_cast<Index>(system.f_frsize);
  const std::string call = str("fallocate of ", show_bytes(bytes),
                               known ? str(", where ", show_bytes(free), " are free") : "");
  errno = reason;
  fail_call(path_, call.c_str());
}

void File::write_at(Index offset, const void* data, Index bytes) const {
  Index done = 0;
  while (done < bytes) {
    // What a short direct transfer left beyond the last aligned offset is written again.
    const Caching used = caching();
    const Index from = used == Caching::direct ? align_down(done) : done;
    const auto wrote = repeat_interrupted([&] {
      return ::pwrite(descriptor_, static_cast<const char*>(data) + from,
                      static_cast<std::size_t>(bytes - from), offset + from);
    });
    if (wrote < 0 && fall_back(used)) continue;
    check_call(wrote, path_, "pwrite");
    require(from + wrote > done, path_, ": pwrite: stopped after ", done, " of ", bytes,
            " bytes at ", offset);
    done = from + wrote;
  }
}

Index File::read_at(Index offset, void* data, Index bytes) const {
  Index done = 0;
  while (done < bytes) {
    const Caching used = caching();
    const Index from = used == Caching::direct ? align_down(done) : done;
    const auto got = repeat_interrupted([&] {
      return ::pread(descriptor_, static_cast<char*>(data) + from,
                     static_cast<std::size_t>(bytes - from), offset + from);
    });
    if (got < 0 && fall_back(used)) continue;
    check_call(got, path_, "pread");
    if (from + got <= done) break;  // nothing new: the end of the file
    done = from + got;
  }
  return done;
}

void File::will_need(Index offset, Index bytes) const {
  static_cast<void>(::posix_fadvise(descriptor_, offset, bytes, POSIX_FADV_WILLNEED));
}

void File::truncate(Index bytes) const {
  check_call(repeat_interrupted([&] { return ::ftruncate(descriptor_, bytes); }), path_,
             "ftruncate");
}

void File::sync() const {
  check_call(repeat_interrupted([&] { return ::fsync(descriptor_); }), path_, "fsync");
}

bool File::touch() const { return ::futimens(descriptor_, nullptr) == 0; }

void File::close() {
  // Linux has closed the descriptor even when close(2) is interrupted.
  const int status = ::close(std::exchange(descriptor_, -1));
  if (status != 0 && errno != EINTR) fail_call(path_, "close");
}

}  // namespace trireme
