#include "tests/support/small_disk.h"

#include <filesystem>

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/core/require_call.h"

namespace trireme::test {
namespace {

void check(int status, const char* call) { require_call(status == 0, call); }

}  // namespace

SmallDisk::SmallDisk(const std::string& path, Index bytes) : path_(path) {
  std::filesystem::create_directory(path);
  check(unshare(CLONE_NEWNS), "unshare");
  check(mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr), "mount --make-rprivate");
  check(mount("tmpfs", path.c_str(), "tmpfs", 0, str("size=", bytes).c_str()), "mount");
}

SmallDisk::~SmallDisk() { umount2(path_.c_str(), MNT_DETACH); }

void SmallDisk::fill_up_to(Index bytes) const {
  struct statvfs disk {};
  check(statvfs(path_.c_str(), &disk), "statvfs");
  const Index free = static_cast<Index>(disk.f_bavail) * static_cast<Index>(disk.f_bsize);
  const int file = open((path_ + "/filler").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  require_call(file >= 0, path_, "/filler");
  const int status = fallocate(file, 0, 0, free - bytes);
  close(file);
  check(status, "fallocate");
}

void SmallDisk::make_space() const { std::filesystem::remove(path_ + "/filler"); }

void SmallDisk::make_read_only() const {
  check(mount("none", path_.c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr), "remount");
}

}  // namespace trireme::test
