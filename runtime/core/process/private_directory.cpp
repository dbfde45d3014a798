#include "runtime/core/process/private_directory.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>
#include <sys/stat.h>

#include "trireme/core/error.h"

#include "runtime/core/require_call.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

/// Why it is no private directory of this user; empty: it is one.
std::string what_is_wrong(const std::string& path, uid_t owner) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return std::strerror(errno);
  if (status.st_uid != owner)
    return fmt::format("it belongs to another user, of id {}", status.st_uid);
  if (S_ISLNK(status.st_mode)) return "it is a link";
  if (!S_ISDIR(status.st_mode)) return "it is no directory";
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) return "other users can write in it";
  return "";
}

bool make_directory_of_user(const std::string& path) {
  if (::mkdir(path.c_str(), S_IRWXU) == 0) return true;
  require_call(errno == EEXIST, path, ": cannot be made");
  return false;
}

/// Who owns a directory can put another one in place of what lies in it. So below one in which all
/// may make directories, they have to be root's or this user's.
void check_parents(const fs::path& path, bool make_missing) {
  fs::path parent;
  bool shared = false;
  for (const fs::path& name : fs::absolute(path).parent_path()) {
    parent /= name;
    struct stat status {};
    if (make_missing && ::lstat(parent.c_str(), &status) != 0 && errno == ENOENT)
      make_directory_of_user(parent.string());
    require_call(::lstat(parent.c_str(), &status) == 0, parent.string());
    require(!shared || status.st_uid == 0 || status.st_uid == ::geteuid(), path.string(),
            ": is not used, as ", parent.string(), " belongs to another user, of id ",
            status.st_uid);
    require_call(::stat(parent.c_str(), &status) == 0, parent.string());
    shared = (status.st_mode & S_IWOTH) != 0;
  }
}

}  // namespace

bool is_private_directory(const std::string& path, uid_t owner) {
  return what_is_wrong(path, owner).empty();
}

void make_private_directory(const std::string& path) {
  check_parents(path, true);
  if (make_directory_of_user(path)) return;
  const std::string wrong = what_is_wrong(path, ::geteuid());
  require(wrong.empty(), path, ": is not used, as ", wrong);
}

std::string private_path(const std::string& path) {
  constexpr int most = 9;
  std::string free;
  for (int number = 1; number <= most; ++number) {
    const std::string candidate = number == 1 ? path : fmt::format("{}.{}", path, number);
    if (is_private_directory(candidate)) return candidate;
    struct stat status {};
    if (free.empty() && ::lstat(candidate.c_str(), &status) != 0 && errno == ENOENT)
      free = candidate;
  }
  require(!free.empty(), path, " to ", path, ".", most, ": none is used; of the first, ",
          what_is_wrong(path, ::geteuid()));
  return free;
}

std::string make_new_private_directory(const std::string& prefix) {
  check_parents(prefix, false);
  std::string path = prefix + "-XXXXXX";
  require_call(::mkdtemp(path.data()) != nullptr, prefix, "-*: cannot be made");
  return path;
}

std::vector<std::string> private_directories(const std::string& prefix, uid_t owner) {
  const fs::path wanted = prefix;
  std::vector<std::string> found;
  std::error_code missing;
  for (const fs::directory_entry& entry : fs::directory_iterator(wanted.parent_path(), missing)) {
    const std::string path = entry.path().string();
    if (entry.path().filename().string().starts_with(wanted.filename().string()) &&
        is_private_directory(path, owner))
      found.push_back(path);
  }
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace trireme
