// ScratchDirectory: a directory of one test alone, removed with what is inside; and whole files in
// it, as text or bytes.
//
// Rule: whatever a test writes lies in one of these. ctest runs tests of one program side by
// side, so a name that two of them share is a race.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/message_of.h"

namespace trireme {

class ScratchDirectory {
 public:
  static std::string on_disk() { return std::filesystem::temp_directory_path().string(); }
  /// A directory in memory, where fsync is quick and O_DIRECT is refused; on disk if there is none.
  static std::string in_memory() {
    return std::filesystem::is_directory("/dev/shm") ? "/dev/shm" : on_disk();
  }

  explicit ScratchDirectory(const std::string& parent = on_disk()) {
    std::string pattern = parent + "/trireme-test-XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr)
      throw std::runtime_error("no scratch directory in " + parent);
    path_ = pattern;
  }
  ~ScratchDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

  /// Returns: the path of the file.
  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(*this / name, std::ios::binary) << content;
    return *this / name;
  }
  std::string read(const std::string& name) const {
    std::ifstream file(*this / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path_), {}));
  }

 private:
  std::string path_;
};

inline std::vector<std::byte> bytes_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file.good()) throw std::runtime_error("no file " + path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  return {data, data + text.size()};
}

inline void write_bytes(const std::string& path, const std::vector<std::byte>& bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

/// The message of the error that f throws, "" if none, without `folder` in it.
template <class F>
std::string message_of(const ScratchDirectory& folder, F&& f) {
  std::string text = message_of(f);
  const std::string path = folder / "";
  for (std::size_t at; (at = text.find(path)) != std::string::npos;) text.erase(at, path.size());
  return text;
}

}  // namespace trireme
