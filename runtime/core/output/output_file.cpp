#include "runtime/core/output/output_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <regex>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trireme/core/error.h"

#include "runtime/core/parse_number.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr mode_t readable_and_writable = 0666;  // and the umask

/// A descriptor that is closed in any case.
class Opened {
 public:
  explicit Opened(int number) : number_(number) {}
  ~Opened() {
    if (number_ >= 0) ::close(number_);
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
  int number() const { return number_; }
  int release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

/// Of /dev/stdout and the like, which are files that this process has open; -1: of no such name.
int open_already(const std::string& path) {
  if (path == "/dev/stdout") return STDOUT_FILENO;
  if (path == "/dev/stderr") return STDERR_FILENO;
  for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/"})
    if (path.starts_with(folder))
      return parse_number<int>(std::string_view(path).substr(folder.size())).value_or(-1);
  return -1;
}

bool is_character_stream(mode_t mode) { return S_ISFIFO(mode) || S_ISCHR(mode); }

/// Why a name in a directory that all users can write in is not used: another user may have put it
/// there to be written into. The rule is that of protected_symlinks(5), which may be off.
std::string why_planted(const std::string& path) {
  struct stat entry {
  }, folder{};
  if (::lstat(path.c_str(), &entry) != 0 || ::stat(parent_directory(path).c_str(), &folder) != 0)
    return "";
  const bool shared = (folder.st_mode & S_IWOTH) != 0;
  if (!shared || entry.st_uid == ::geteuid() || entry.st_uid == folder.st_uid) return "";
  return str("belongs to another user, of id ", entry.st_uid, ", and all users can write in ",
             parent_directory(path));
}

std::string why_no_link(const std::string& path) {
  struct stat target {};
  if (::stat(path.c_str(), &target) == 0) return "";
  const int reason = errno;
  std::error_code failed;
  const std::string to = fs::read_symlink(path, failed).string();
  return str("is a link to ", to,
             reason == ENOENT ? ", which is not there" : str(": ", std::strerror(reason)));
}

/// The beginning of a file, as far as a kind is known by it.
std::string beginning_of(int file) {
  std::string text(512, '\0');
  const ssize_t got = ::pread(file, text.data(), text.size(), 0);
  text.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
  return text;
}

bool is_of_kind(const std::string& beginning, const OutputKind& kind) {
  const std::string_view mark = kind.mark, begin = beginning;
  if (begin.size() < mark.size()) return mark.starts_with(begin);
  return begin.starts_with(mark) &&
         std::regex_search(beginning.begin() + static_cast<std::ptrdiff_t>(mark.size()),
                           beginning.end(), std::regex(kind.then),
                           std::regex_constants::match_continuous);
}

constexpr const char* mend = "; remove it, or give another name";

/// What can be said without its content.
std::string why_no_type(mode_t mode, const OutputKind& kind) {
  if (S_ISREG(mode)) return kind.mark == nullptr ? str("exists already", mend) : "";
  if (!is_character_stream(mode)) return "is no plain file; another name is needed";
  return kind.is_text ? "" : "is a pipe or a device; a file name is needed";
}

/// Of an open file.
std::string why_no_content(int file, const OutputKind& kind) {
  struct stat status {};
  if (::fstat(file, &status) != 0) return std::strerror(errno);
  if (const std::string wrong = why_no_type(status.st_mode, kind); !wrong.empty()) return wrong;
  if (!S_ISREG(status.st_mode) || status.st_size == 0 || is_of_kind(beginning_of(file), kind))
    return "";
  return str("exists, and is not ", kind.what, mend);
}

std::string why_no_content(const std::string& path, const OutputKind& kind) {
  const Opened file(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  if (file.number() >= 0) return why_no_content(file.number(), kind);
  if (errno == ENOENT) return "";  // it has just been removed
  return str("cannot be read, so that nothing shows whether it may be replaced: ",
             std::strerror(errno));
}

/// What can be said by the names alone.
std::string why_no_place(const std::string& path) {
  std::error_code failed;
  if (fs::path(path).is_relative() && fs::current_path(failed).empty())
    return "the working directory is gone; give a path from / on, or start in another";
  struct stat entry {};
  if (::lstat(path.c_str(), &entry) != 0) return why_not_writable(parent_directory(path));
  if (const std::string planted = why_planted(path); !planted.empty()) return planted;
  if (!S_ISLNK(entry.st_mode)) return "";
  if (const std::string wrong = why_no_link(path); !wrong.empty()) return wrong;
  const std::string target = behind_links(path);
  return target == path ? "" : why_no_place(target);
}

}  // namespace

std::string parent_directory(const std::string& path) {
  const fs::path whole(path);
  const fs::path parent = (whole.has_filename() ? whole : whole.parent_path()).parent_path();
  return parent.empty() ? "." : parent.string();
}

std::string why_not_writable(const std::string& directory) {
  std::error_code ignored;
  if (!fs::is_directory(directory, ignored)) return "there is no directory " + directory;
  if (::access(directory.c_str(), W_OK | X_OK) != 0)
    return "the directory " + directory + " cannot be written to";
  return "";
}

bool same_place(const std::string& a, const std::string& b) {
  const auto place = [](const std::string& path) {
    std::error_code failed;
    const fs::path whole = fs::weakly_canonical(fs::absolute(path, failed), failed);
    return whole.has_filename() ? whole : whole.parent_path();
  };
  std::error_code missing;
  return place(a) == place(b) || fs::equivalent(a, b, missing);
}

std::string behind_links(const std::string& path) {
  std::error_code failed;
  if (!fs::is_symlink(path, failed)) return path;
  const fs::path target = fs::canonical(path, failed);
  return failed ? path : target.string();
}

bool is_stream(const std::string& path) {
  struct stat status {};
  return open_already(path) >= 0 ||
         (::stat(path.c_str(), &status) == 0 && is_character_stream(status.st_mode));
}

std::string why_no_output(const std::string& path, const OutputKind& kind) {
  if (open_already(path) >= 0) {
    if (!kind.is_text) return "is a stream of this process; a file name is needed";
    return ::fcntl(open_already(path), F_GETFL) < 0 ? "is not open" : "";
  }
  std::error_code ignored;
  if (path.ends_with('/') || fs::is_directory(path, ignored))
    return "is a directory; a file name is needed";
  if (const std::string wrong = why_no_place(path); !wrong.empty()) return wrong;
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return errno == ENOENT ? "" : std::strerror(errno);
  if (const std::string wrong = why_no_type(status.st_mode, kind); !wrong.empty()) return wrong;
  if (::access(path.c_str(), W_OK) != 0 && errno != ENOENT)
    return str("cannot be written to: ", std::strerror(errno));
  if (!S_ISREG(status.st_mode)) return "";  // a pipe that is opened twice ends for its reader
  const std::string wrong = why_not_writable(parent_directory(behind_links(path)));
  return wrong.empty() ? why_no_content(path, kind) : wrong;
}

const OutputKind& kind_beside(const std::string& index) {
  std::error_code unknown;
  return fs::exists(index, unknown) ? outputs::numbers : outputs::new_file;
}

std::string why_no_output_directory(const std::string& path) {
  if (const std::string wrong = why_no_place(path); !wrong.empty()) return wrong;
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return errno == ENOENT ? "" : std::strerror(errno);
  if (!S_ISDIR(status.st_mode)) return "is a file; a directory is needed";
  return why_not_writable(path);
}

int open_output(const std::string& path, const OutputKind& kind) {
  const std::string wrong = why_no_output(path, kind);
  require(wrong.empty(), path, ": ", wrong);
  if (open_already(path) >= 0) {
    const int copy = ::fcntl(open_already(path), F_DUPFD_CLOEXEC, 0);
    if (copy < 0) throw Error(str(path, ": ", std::strerror(errno)));
    return copy;
  }
  constexpr int always = O_APPEND | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW;
  const bool stream = is_stream(path);
  const std::string target = stream ? path : behind_links(path);
  const int flags = stream ? (O_WRONLY | O_NONBLOCK | O_APPEND | O_CLOEXEC | O_NOCTTY)
                           : (O_RDWR | O_CREAT | always);
  Opened file(::open(target.c_str(), flags, readable_and_writable));
  const int reason = errno;
  require(file.number() >= 0 || reason != ENXIO, path,
          ": is a pipe that no program reads; start its reader first");
  if (file.number() < 0) throw Error(str(path, ": ", std::strerror(reason)));
  const std::string other = why_no_content(file.number(), kind);  // as it is now
  require(other.empty(), path, ": ", other);
  if (stream) ::fcntl(file.number(), F_SETFL, O_APPEND);  // it waits for its reader from now on
  return file.release();
}

std::string why_no_prefix(const std::string& prefix) {
  std::error_code unknown;
  const std::filesystem::file_status there = std::filesystem::status(prefix, unknown);
  if (!std::filesystem::exists(there) || std::filesystem::is_regular_file(there)) return "";
  return std::filesystem::is_directory(there)
             ? "is a directory: give the beginning of a name in it"
             : "is no plain file, but the beginning of names is asked for";
}

}  // namespace trireme
