// Files of choices: how they are named, written, published and checked.
#include "kernels/cuda/gemm_cache.h"

#include <cctype>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "trireme/core/error.h"

namespace trireme::kernels {
namespace {

constexpr const char* format_line = "trireme gemm 1\n";
constexpr mode_t readable_by_all = 0644;

/// Detects damage and names files.
std::uint64_t hash(const std::string& text) { return XXH3_64bits(text.data(), text.size()); }

std::string checksum_line(const std::string& text) {
  return fmt::format("checksum {:016x}\n", hash(text));
}

std::string as_file_name(std::string text) {
  for (char& c : text)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.') c = '-';
  return text;
}

[[noreturn]] void fail(const std::string& what, const std::string& path) {
  throw Error(fmt::format("GEMM cache: {} {}: {}", what, path, std::strerror(errno)));
}

/// A file of its own name in `folder`, written and on disk; removed when this goes.
class Draft {
 public:
  Draft(const std::string& folder, const std::string& text) : path_(folder + "/.draft-XXXXXX") {
    const int file = ::mkstemp(path_.data());
    if (file < 0) fail("cannot create", path_);
    const bool written =
        ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
        ::fchmod(file, readable_by_all) == 0 && ::fsync(file) == 0;
    const int error = errno;
    ::close(file);
    if (written) return;
    ::unlink(path_.c_str());
    errno = error;
    fail("cannot write", path_);
  }
  ~Draft() { ::unlink(path_.c_str()); }
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace

GemmCache::GemmCache(const std::string& directory, std::string gpu, std::string library)
    : gpu_(std::move(gpu)), library_(std::move(library)) {
  if (!directory.empty()) folder_ = directory + "/" + as_file_name(gpu_ + "-" + library_);
}

std::string GemmCache::path_of(const std::string& product) const {
  return fmt::format("{}/{:016x}.txt", folder_, hash(product));
}

std::string GemmCache::head(const std::string& product) const {
  return fmt::format("{}gpu {}\nlibrary {}\nproduct {}\n", format_line, gpu_, library_, product);
}

GemmCache::Entry GemmCache::find(const std::string& product) const {
  const std::string path = path_of(product);
  std::ifstream file(path, std::ios::binary);
  if (!file.good()) return {};
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto unusable = [&](const char* why) {
    return Entry{Entry::State::unusable, "",
                 fmt::format("GEMM cache: {} {}; remove it to choose again", path, why)};
  };
  const std::size_t end = text.rfind("checksum ");
  if (end == std::string::npos || text.substr(end) != checksum_line(text.substr(0, end)))
    return unusable("is damaged");
  const std::string expected = head(product), key = "choice ";
  if (!text.starts_with(expected) || text.compare(expected.size(), key.size(), key) != 0)
    return unusable("belongs to another GPU, another version or another product");
  const std::size_t begin = expected.size() + key.size();
  return {Entry::State::good, text.substr(begin, text.find('\n', begin) - begin), ""};
}

GemmCache::Entry GemmCache::publish(const std::string& product, const std::string& choice) const {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) throw Error(fmt::format("GEMM cache: cannot make {}: {}", folder_, error.message()));
  std::string text = head(product) + "choice " + choice + "\n";
  text += checksum_line(text);
  const Draft draft(folder_, text);
  const std::string path = path_of(product);
  if (::link(draft.path().c_str(), path.c_str()) != 0 && errno != EEXIST)
    fail("cannot link (the file system must have hard links)", path);
  return find(product);
}

}  // namespace trireme::kernels
