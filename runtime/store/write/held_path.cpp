#include "runtime/store/write/held_path.h"

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <random>
#include <thread>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/core/process/this_machine.h"
#include "runtime/store/system_call.h"

namespace trireme {

using namespace store;

namespace {

namespace fs = std::filesystem;

constexpr std::size_t digits_of_machine = 8, digits = 16;

std::string machine_digits() {
  std::string id;
  std::ifstream("/etc/machine-id") >> id;
  const std::uint64_t all = std::hash<std::string>()(host_name() + '\n' + id);
  return fmt::format("{:08x}", static_cast<std::uint32_t>(all ^ (all >> 32)));
}

int open_to_lock(const std::string& path, HeldPath::Kind kind) {
  const int flags = kind == HeldPath::Kind::file ? O_RDWR | O_NONBLOCK : O_RDONLY | O_DIRECTORY;
  return repeat_interrupted([&] { return ::open(path.c_str(), flags | O_NOFOLLOW | O_CLOEXEC); });
}

/// False: another process holds it. A file system without locks has no more to give.
bool lock(int file) {
  return repeat_interrupted([&] { return ::flock(file, LOCK_EX | LOCK_NB); }) == 0 ||
         errno != EWOULDBLOCK;
}

bool is_at(int file, const std::string& path) {
  struct stat own {
  }, there{};
  return ::fstat(file, &own) == 0 && ::lstat(path.c_str(), &there) == 0 &&
         own.st_dev == there.st_dev && own.st_ino == there.st_ino;
}

/// Whether it is of this user and nobody holds it; then its lock is held until `file` is closed.
bool is_left(int file, HeldPath::Kind kind, const std::string& path) {
  struct stat status {};
  if (::fstat(file, &status) != 0 || status.st_uid != ::geteuid()) return false;
  if (kind == HeldPath::Kind::file && !S_ISREG(status.st_mode)) return false;
  return repeat_interrupted([&] { return ::flock(file, LOCK_EX | LOCK_NB); }) == 0 &&
         is_at(file, path);
}

/// Removes those whose processes have ended.
void sweep(HeldPath::Kind kind, const std::string& series, const std::string& end) {
  const fs::path folder = fs::path(series).parent_path();
  const std::string begin = fs::path(series).filename().string() + machine_digits();
  const std::size_t length = begin.size() - digits_of_machine + digits + end.size();
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder.empty() ? "." : folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.size() != length || !name.starts_with(begin) || !name.ends_with(end)) continue;
    const std::string path = entry.path().string();
    const int file = open_to_lock(path, kind);
    if (file < 0) continue;
    if (is_left(file, kind, path)) fs::remove_all(path, ignored);
    ::close(file);
  }
}

/// False: the name is taken.
bool make(HeldPath::Kind kind, const std::string& path) {
  constexpr mode_t for_all = 0777, for_files = 0666;  // and the umask
  const int made = repeat_interrupted([&] {
    if (kind != HeldPath::Kind::file)
      return ::mkdir(path.c_str(), kind == HeldPath::Kind::directory ? for_all : S_IRWXU);
    return ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, for_files);
  });
  if (made < 0 && errno == EEXIST) return false;
  check_call(made, path, kind == HeldPath::Kind::file ? "open" : "mkdir");
  if (kind == HeldPath::Kind::file) ::close(made);
  return true;
}

}  // namespace

HeldPath::HeldPath(Kind kind, const std::string& series, const std::string& end) {
  sweep(kind, series, end);
  constexpr int most_tries = 100;  // the next process that sweeps may take a fresh one for left
  std::random_device random;
  for (int tries = 0; tries < most_tries; ++tries) {
    path_ = fmt::format("{}{}{:08x}{}", series, machine_digits(), random(), end);
    if (!make(kind, path_)) continue;
    lock_ = open_to_lock(path_, kind);
    if (lock_ >= 0 && lock(lock_) && is_at(lock_, path_)) return;
    if (lock_ >= 0) ::close(lock_);
  }
  throw Error(str(series, "*", end, ": no name is free"));
}

HeldPath::~HeldPath() {
  std::error_code ignored;
  if (!kept_) fs::remove_all(path_, ignored);
  ::close(lock_);
}

TemporaryDirectory::TemporaryDirectory(const std::string& parent, const std::string& prefix)
    : held_(HeldPath::Kind::private_directory, (fs::absolute(parent) / (prefix + "-")).string(),
            "") {}

TemporaryDirectory::~TemporaryDirectory() {
  constexpr int most_tries = 100;
  std::error_code failed;
  for (int tries = 0; tries < most_tries; ++tries) {
    fs::remove_all(path(), failed);
    if (!failed) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  held_.keep();
  if (failed)
    std::cerr << "trireme: " << path() << " cannot be removed: " << failed.message() << '\n';
}

}  // namespace trireme
