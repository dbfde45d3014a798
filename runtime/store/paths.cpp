// Continues file.h.
// Whole small files, and what is done to names: directories, renaming, removing.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/store/file.h"
#include "runtime/store/system_call.h"

namespace trireme {

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
