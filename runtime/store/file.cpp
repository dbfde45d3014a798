// An open file: transfers that are interrupted, cut short or refused with O_DIRECT are continued
// here, and nowhere else.
#include "runtime/store/file.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

#include <dirent.h>
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

// Whole small files, and what is done to names: directories, renaming, removing.

using namespace store;

std::string read_whole(const std::string& path, Index limit_bytes) {
  const File file = File::open(path, Caching::buffered);
  const Index bytes = file.size();
  require(bytes <= limit_bytes, path, ": has ", bytes, " bytes, more than the ", limit_bytes,
          " that are read");
  std::string text(static_cast<std::size_t>(bytes), '\0');
  text.resize(static_cast<std::size_t>(file.read_at(0, text.data(), bytes)));
  return text;
}

std::string read_last_lines(const std::string& path, Index limit_bytes) {
  if (::access(path.c_str(), F_OK) != 0) return "";
  const File file = File::open(path, Caching::buffered);
  const Index bytes = file.size(), begin = std::max<Index>(0, bytes - limit_bytes);
  std::string text(static_cast<std::size_t>(bytes - begin), '\0');
  text.resize(static_cast<std::size_t>(file.read_at(begin, text.data(), bytes - begin)));
  text.resize(text.rfind('\n') + 1);  // npos + 1 is 0
  return begin == 0 ? text : text.substr(text.find('\n') + 1);
}

void append_line(const std::string& path, const std::string& line) {
  if (::access(path.c_str(), F_OK) != 0) {
    write_whole(path, line);
    const std::size_t slash = path.rfind('/');
    return sync_directory(slash == std::string::npos ? "." : path.substr(0, slash + 1));
  }
  char last = '\n';
  Index end = 0;
  {
    const File file = File::open(path, Caching::buffered);
    end = file.size();
    if (end > 0) file.read_at(end - 1, &last, 1);
  }
  const std::string text = last == '\n' ? line : "\n" + line;
  File file = File::open_to_write(path, Caching::buffered);
  file.write_at(end, text.data(), static_cast<Index>(text.size()));
  file.sync();
  file.close();
}

void write_whole(const std::string& path, const std::string& text) {
  File file = File::create(path, Caching::buffered);
  file.write_at(0, text.data(), static_cast<Index>(text.size()));
  file.sync();
  file.close();
}

void make_directory(const std::string& path) {
  constexpr int mode = 0777;  // and the umask
  if (repeat_interrupted([&] { return ::mkdir(path.c_str(), mode); }) == 0) return;
  struct stat status {};
  const int reason = errno;
  const bool there = reason == EEXIST && ::stat(path.c_str(), &status) == 0;
  if (there && S_ISDIR(status.st_mode)) return;
  errno = there ? ENOTDIR : reason;
  fail_call(path, "mkdir");
}

void sync_directory(const std::string& path) {
  const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
  const int directory =
      check_call(repeat_interrupted([&] { return ::open(path.c_str(), flags); }), path, "open");
  const int status = repeat_interrupted([&] { return ::fsync(directory); });
  const int reason = errno;
  ::close(directory);  // nothing was written through it
  errno = reason;
  check_call(status, path, "fsync");
}

void rename_path(const std::string& from, const std::string& to) {
  check_call(repeat_interrupted([&] { return ::rename(from.c_str(), to.c_str()); }),
             from + " -> " + to, "rename");
}

void rename_new(const std::string& from, const std::string& to) {
  int status = repeat_interrupted(
      [&] { return ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE); });
  const bool cannot = status < 0 && (errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP);
  struct stat there {};
  if (cannot && ::lstat(to.c_str(), &there) != 0) return rename_path(from, to);
  const bool taken = cannot || (status < 0 && errno == EEXIST);
  require(!taken, to, ": exists already; remove it, or give another name");
  check_call(status, from + " -> " + to, "renameat2");
}

bool exchange_paths(const std::string& a, const std::string& b) {
  const int status = repeat_interrupted(
      [&] { return ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE); });
  if (status < 0 && (errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP)) return false;
  check_call(status, a + " <-> " + b, "renameat2");
  return true;
}

void remove_file(const std::string& path) {
  const int status = repeat_interrupted([&] { return ::unlink(path.c_str()); });
  if (status < 0 && errno != ENOENT) fail_call(path, "unlink");
}

void remove_directory(const std::string& path) {
  const int status = repeat_interrupted([&] { return ::rmdir(path.c_str()); });
  if (status < 0 && errno != ENOENT) fail_call(path, "rmdir");
}

std::vector<std::string> list_directory(const std::string& path) {
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(path.c_str()), &::closedir);
  if (!directory) fail_call(path, "opendir");
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(directory.get());
    if (entry == nullptr) break;
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  if (errno != 0) fail_call(path, "readdir");
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace trireme
