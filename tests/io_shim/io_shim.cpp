// io_shim: a library for LD_PRELOAD that makes one call of a process to the file system fail, or
// the process die at it. It counts calls (from 1, over all threads) of open, openat, pwrite, write,
// writev, fallocate, ftruncate, fsync, fdatasync, rename, renameat, renameat2, link, linkat,
// unlink, unlinkat, rmdir and mkdir (and their names with 64) that touch a path under ROOT, opening
// for reading as well. What it does is set by the environment, read once at start:
//   TRIREME_SHIM_ROOT    a directory. Calls elsewhere are neither counted nor touched. Needed.
//   TRIREME_SHIM_CALL=k  the call at which a fault happens; without it, no call does.
//   TRIREME_SHIM_FAULT   what happens, separated by commas:
//     die_before die_after  _exit(137) before, or after, call k is done
//     die_half              half of a write is done, then _exit(137); any other call: die_before
//     ENOSPC EDQUOT EIO EROFS EINTR EINVAL: call k does nothing and fails so. ENOSPC+ and so on:
//                           call k and all after it that can need space; EINTR+: every other call
//                           from k on, as a program may repeat it without end
//     short short+          a write does half and says so. With O_DIRECT it claims bytes beyond the
//                           last 4096 that it has written; a write of 4096 or less is whole then
//     kill                  as die_before, but by SIGKILL (what mpirun sees as a killed rank)
//     direct=EINVAL         open with O_DIRECT is refused, but makes a new file, as on tmpfs
//     direct=transfer       O_DIRECT can be opened, but every transfer with it fails with EINVAL
//     reserve=EOPNOTSUPP    fallocate is refused
//     link=EPERM            link is refused
//     hold=FILE             while FILE, outside of ROOT, exists, every call that makes or writes a
//                           file in a directory below ROOT waits: of a step, and not ROOT/lock
//     (the last five need no TRIREME_SHIM_CALL)
//   TRIREME_SHIM_RANK=r  only this rank of mpirun has faults at call k, and is held; all count
//   TRIREME_SHIM_LOG     to this file, outside of ROOT: at the end "rank calls" (-1: no rank)
//   TRIREME_SHIM_TRACE   the same: "rank k name path" at each counted call
//   TRIREME_SHIM_RECORD  the same: what changes something (record.h), if pwrite alone writes
// Not seen: what libc does inside (stdio, opendir), and mmap.
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/io_shim/record.h"
#include "tests/io_shim/settings.h"

using namespace io_shim;

namespace {

template <class F>
F* next(const char* name) {
  return reinterpret_cast<F*>(::dlsym(RTLD_NEXT, name));
}

std::atomic<long> calls{0};

void write_log() {
  append(settings().log, std::to_string(settings().rank) + " " + std::to_string(calls) + "\n");
}

struct AtExit {
  AtExit() { settings(); }
  ~AtExit() { write_log(); }
} at_exit;

[[noreturn]] void die(Ending ending) {
  write_log();
  if (ending == Ending::killed) ::kill(::getpid(), SIGKILL);
  ::_exit(137);
}

bool under(const std::string& path, const std::string& root) {
  return path.compare(0, root.size(), root) == 0 &&
         (path.size() == root.size() || path[root.size()] == '/');
}

std::string path_of(int fd) {
  char target[PATH_MAX];
  const ssize_t length =
      ::readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), target, sizeof target);
  return length < 0 ? "" : std::string(target, static_cast<std::size_t>(length));
}

std::string path_at(int directory, const char* path) {
  if (path[0] == '/') return path;
  if (directory != AT_FDCWD) return path_of(directory) + "/" + path;
  char here[PATH_MAX];
  return std::string(::getcwd(here, sizeof here) == nullptr ? "" : here) + "/" + path;
}

bool watched(const std::string& path) {
  const Settings& s = settings();
  if (under(path, s.root) || under(path, s.real_root)) return true;
  const auto slash = path.rfind('/');  // through links: the parent decides, as the path may be new
  return slash != std::string::npos && slash > 0 &&
         under(real_path(path.substr(0, slash)) + path.substr(slash), s.real_root);
}

/// Is a file of a directory below the root, while those are held?
bool held(const std::string& path) {
  const Settings& s = settings();
  if (s.hold.empty()) return false;
  const std::string& root = under(path, s.root) ? s.root : s.real_root;
  return path.find('/', root.size() + 1) != std::string::npos &&
         ::access(s.hold.c_str(), F_OK) == 0;
}

/// What may be done with a call: a permanent lack of space leaves alone what frees space, or reads.
enum class Kind { takes_space, makes_directory, other };  // a directory is not held

/// A counted call: says in its constructor whether it fails, dies or is cut short, and dies after
/// it in its destructor.
class Call {
 public:
  Call(const char* name, const std::string& path, Kind kind) {
    if (!watched(path)) return;
    while (kind == Kind::takes_space && held(path)) ::usleep(1000);
    seen_ = true;
    const Settings& s = settings();
    const long k = ++calls;
    append(s.trace,
           std::to_string(s.rank) + " " + std::to_string(k) + " " + name + " " + path + "\n");
    if (s.call <= 0 || k < s.call || (k > s.call && !s.permanent)) return;
    const bool space = s.error == ENOSPC || s.error == EDQUOT || s.error == EROFS;
    if (s.permanent && space && kind == Kind::other) return;
    if (s.permanent && s.error == EINTR && (k - s.call) % 2 != 0) return;
    error_ = s.error;
    shorten_ = s.shorten;
    ending_ = s.ending;
    if (ending_ == Ending::before || ending_ == Ending::killed) die(ending_);
  }
  ~Call() {
    if (ending_ == Ending::after || ending_ == Ending::half) die(ending_);
  }
  Call(const Call&) = delete;
  /// What it did, once it has.
  void record(const Record& done) const {
    if (seen_) append(done);
  }

  /// Does nothing of it, and sets errno.
  bool fails() const {
    if (ending_ == Ending::half) die(ending_);
    if (error_ != 0) errno = error_;
    return error_ != 0;
  }
  /// For writes, before fails(): how much of `bytes` is written.
  bool halves() const { return shorten_ || ending_ == Ending::half; }
  bool fails_write() const {
    if (error_ != 0) errno = error_;
    return error_ != 0;
  }

 private:
  int error_ = 0;
  bool shorten_ = false, seen_ = false;
  Ending ending_ = Ending::none;
  const std::unique_lock<std::recursive_mutex> order_ = recording_order();
};

bool is_direct(int fd) { return (::fcntl(fd, F_GETFL) & O_DIRECT) != 0; }

/// `transfer(call, bytes)` writes that many.
template <class Transfer>
ssize_t write_with_faults(const char* name, int fd, size_t bytes, Transfer&& transfer) {
  const std::string path = path_of(fd);
  const Settings& s = settings();
  const bool touched = watched(path), direct = touched && is_direct(fd);
  if (direct && s.refuse_direct_transfer) {
    errno = EINVAL;
    return -1;
  }
  const Call call(name, path, Kind::takes_space);
  if (call.fails_write()) return -1;
  constexpr size_t page = 4096;
  if (!call.halves() || bytes <= (direct ? page : 1)) return transfer(call, bytes);
  const size_t half = bytes / 2;
  if (!direct) return transfer(call, half);
  const size_t whole = half / page * page;
  if (whole > 0 && transfer(call, whole) != static_cast<ssize_t>(whole)) return -1;
  return static_cast<ssize_t>(whole + page / 2 + 1);  // a claim; see above
}

using OpenAt = int(int, const char*, int, ...);

int open_with_faults(const char* name, int directory, const char* path, int flags, mode_t mode) {
  static const auto real = next<OpenAt>("openat");
  const std::string full = path_at(directory, path);
  const Call call(name, full, (flags & O_CREAT) != 0 ? Kind::takes_space : Kind::other);
  if (call.fails()) return -1;
  const bool creates = (flags & O_CREAT) != 0 && ::access(full.c_str(), F_OK) != 0;
  if ((flags & O_DIRECT) == 0 || !settings().refuse_direct_open || !watched(full)) {
    const int fd = real(directory, path, flags, mode);
    const int reason = errno;  // a refusal of O_DIRECT has made the file
    if (creates && ::access(full.c_str(), F_OK) == 0) call.record({"create", full});
    errno = reason;
    return fd;
  }
  if ((flags & O_CREAT) != 0) {
    const int fd = real(directory, path, flags & ~O_DIRECT, mode);
    if (fd < 0) return fd;
    if (creates) call.record({"create", full});
    ::close(fd);
  }
  errno = EINVAL;
  return -1;
}

mode_t mode_of(int flags, va_list arguments) {
  return (flags & (O_CREAT | __O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
}

/// `done`: what it has done to `done.path` when it succeeds.
template <class Do>
int with_faults(const char* name, Kind kind, const Record& done, Do&& act) {
  const Call call(name, done.path, kind);
  if (call.fails()) return -1;
  const int result = act();
  if (result >= 0) call.record(done);
  return result;
}

int truncate_with_faults(int fd, off_t bytes) {
  static const auto real = next<int(int, off_t)>("ftruncate");
  return with_faults("ftruncate", Kind::other,
                     {.name = "truncate", .path = path_of(fd), .offset = bytes},
                     [&] { return real(fd, bytes); });
}

int sync_with_faults(const char* name, int fd) {
  const auto real = next<int(int)>(name);
  return with_faults(name, Kind::other, {"fsync", path_of(fd)}, [&] { return real(fd); });
}

template <class Do>
int link_with_faults(const char* name, const std::string& from, const std::string& to, Do&& act) {
  return with_faults(name, Kind::takes_space, {"link", from, to}, [&] {
    if (!settings().refuse_link || !watched(to)) return act();
    errno = EPERM;
    return -1;
  });
}

int reserve_with_faults(int fd, int mode, off_t offset, off_t bytes) {
  static const auto real = next<int(int, int, off_t, off_t)>("fallocate");
  const std::string path = path_of(fd);
  const Record done{.name = "reserve", .path = path, .offset = mode == 0 ? offset + bytes : 0};
  return with_faults("fallocate", Kind::takes_space, done, [&] {
    if (!settings().refuse_reserve || !watched(path)) return real(fd, mode, offset, bytes);
    errno = EOPNOTSUPP;
    return -1;
  });
}

ssize_t pwrite_with_faults(int fd, const void* data, size_t bytes, off_t offset) {
  static const auto real = next<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  return write_with_faults("pwrite", fd, bytes, [&](const Call& call, size_t some) {
    const ssize_t wrote = real(fd, data, some, offset);
    if (wrote > 0) call.record({"pwrite", path_of(fd), "", offset, data, wrote});
    return wrote;
  });
}

ssize_t pread_with_faults(int fd, void* data, size_t bytes, off_t offset) {
  static const auto real = next<ssize_t(int, void*, size_t, off_t)>("pread");
  if (settings().refuse_direct_transfer && is_direct(fd) && watched(path_of(fd))) {
    errno = EINVAL;
    return -1;
  }
  return real(fd, data, bytes, offset);
}

}  // namespace

// off_t has 64 bits here, so names with and without 64 are the same call.
extern "C" {

#define TRIREME_OPEN(name)                                        \
  int name(const char* path, int flags, ...) {                    \
    va_list arguments;                                            \
    va_start(arguments, flags);                                   \
    const mode_t mode = mode_of(flags, arguments);                \
    va_end(arguments);                                            \
    return open_with_faults("open", AT_FDCWD, path, flags, mode); \
  }
#define TRIREME_OPENAT(name)                                         \
  int name(int directory, const char* path, int flags, ...) {        \
    va_list arguments;                                               \
    va_start(arguments, flags);                                      \
    const mode_t mode = mode_of(flags, arguments);                   \
    va_end(arguments);                                               \
    return open_with_faults("openat", directory, path, flags, mode); \
  }
TRIREME_OPEN(open)
TRIREME_OPEN(open64)
TRIREME_OPENAT(openat)
TRIREME_OPENAT(openat64)
#undef TRIREME_OPEN
#undef TRIREME_OPENAT

// What fortified headers call.
int __open_2(const char* path, int flags) {
  return open_with_faults("open", AT_FDCWD, path, flags, 0);
}
int __open64_2(const char* path, int flags) { return __open_2(path, flags); }
int __openat_2(int directory, const char* path, int flags) {
  return open_with_faults("openat", directory, path, flags, 0);
}
int __openat64_2(int directory, const char* path, int flags) {
  return __openat_2(directory, path, flags);
}

ssize_t pwrite(int fd, const void* data, size_t bytes, off_t offset) {
  return pwrite_with_faults(fd, data, bytes, offset);
}
ssize_t pwrite64(int fd, const void* data, size_t bytes, off_t offset) {
  return pwrite_with_faults(fd, data, bytes, offset);
}
ssize_t pread(int fd, void* data, size_t bytes, off_t offset) {
  return pread_with_faults(fd, data, bytes, offset);
}
ssize_t pread64(int fd, void* data, size_t bytes, off_t offset) {
  return pread_with_faults(fd, data, bytes, offset);
}
ssize_t write(int fd, const void* data, size_t bytes) {
  static const auto real = next<ssize_t(int, const void*, size_t)>("write");
  return write_with_faults("write", fd, bytes,
                           [&](const Call&, size_t some) { return real(fd, data, some); });
}
ssize_t writev(int fd, const iovec* parts, int count) {
  static const auto real = next<ssize_t(int, const iovec*, int)>("writev");
  // Only the first part is ever cut: a short writev needs no more.
  return write_with_faults("writev", fd, parts->iov_len, [&](const Call&, size_t some) {
    if (some == parts->iov_len) return real(fd, parts, count);
    const iovec half = {parts->iov_base, some};
    return real(fd, &half, 1);
  });
}
int fallocate(int fd, int mode, off_t offset, off_t bytes) {
  return reserve_with_faults(fd, mode, offset, bytes);
}
int fallocate64(int fd, int mode, off_t offset, off_t bytes) {
  return reserve_with_faults(fd, mode, offset, bytes);
}
int ftruncate(int fd, off_t bytes) noexcept { return truncate_with_faults(fd, bytes); }
int ftruncate64(int fd, off_t bytes) noexcept { return truncate_with_faults(fd, bytes); }
int fsync(int fd) { return sync_with_faults("fsync", fd); }
int fdatasync(int fd) { return sync_with_faults("fdatasync", fd); }
int rename(const char* from, const char* to) noexcept {
  static const auto real = next<int(const char*, const char*)>("rename");
  return with_faults("rename", Kind::other,
                     {"rename", path_at(AT_FDCWD, from), path_at(AT_FDCWD, to)},
                     [&] { return real(from, to); });
}
int renameat(int at, const char* from, int to_at, const char* to) noexcept {
  static const auto real = next<int(int, const char*, int, const char*)>("renameat");
  return with_faults("renameat", Kind::other, {"rename", path_at(at, from), path_at(to_at, to)},
                     [&] { return real(at, from, to_at, to); });
}
int renameat2(int at, const char* from, int to_at, const char* to, unsigned flags) noexcept {
  static const auto real = next<int(int, const char*, int, const char*, unsigned)>("renameat2");
  const char* done = (flags & RENAME_EXCHANGE) != 0 ? "exchange" : "rename";
  return with_faults("renameat2", Kind::other, {done, path_at(at, from), path_at(to_at, to)},
                     [&] { return real(at, from, to_at, to, flags); });
}
int link(const char* from, const char* to) noexcept {
  static const auto real = next<int(const char*, const char*)>("link");
  return link_with_faults("link", path_at(AT_FDCWD, from), path_at(AT_FDCWD, to),
                          [&] { return real(from, to); });
}
int linkat(int at, const char* from, int to_at, const char* to, int flags) noexcept {
  static const auto real = next<int(int, const char*, int, const char*, int)>("linkat");
  return link_with_faults("linkat", path_at(at, from), path_at(to_at, to),
                          [&] { return real(at, from, to_at, to, flags); });
}
int unlink(const char* path) noexcept {
  static const auto real = next<int(const char*)>("unlink");
  return with_faults("unlink", Kind::other, {"unlink", path_at(AT_FDCWD, path)},
                     [&] { return real(path); });
}
int unlinkat(int at, const char* path, int flags) noexcept {
  static const auto real = next<int(int, const char*, int)>("unlinkat");
  return with_faults("unlinkat", Kind::other,
                     {(flags & AT_REMOVEDIR) != 0 ? "rmdir" : "unlink", path_at(at, path)},
                     [&] { return real(at, path, flags); });
}
int rmdir(const char* path) noexcept {
  static const auto real = next<int(const char*)>("rmdir");
  return with_faults("rmdir", Kind::other, {"rmdir", path_at(AT_FDCWD, path)},
                     [&] { return real(path); });
}
int mkdir(const char* path, mode_t mode) noexcept {
  static const auto real = next<int(const char*, mode_t)>("mkdir");
  return with_faults("mkdir", Kind::makes_directory, {"mkdir", path_at(AT_FDCWD, path)},
                     [&] { return real(path, mode); });
}

}  // extern "C"
