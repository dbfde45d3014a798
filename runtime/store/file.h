// Files of the operating system, with every return code checked. Errors name the path, the call and
// the reason.
//
// Not installed; modules above may include it.
#pragma once

#include <atomic>
#include <string>
#include <vector>

#include "trireme/core/dtype.h"

namespace trireme {

enum class Caching { direct, buffered };  // direct: O_DIRECT, where the file system has it

/// An open file; closes itself. Short transfers and EINTR are continued.
class File {
 public:
  /// Creates (it must not exist), or opens one for reading, or for writing. `direct` falls back to
  /// buffered where it is refused, be it here or at a transfer: see caching().
  static File create(const std::string& path, Caching caching);
  static File open(const std::string& path, Caching caching);
  static File open_to_write(const std::string& path, Caching caching);
  File(File&& other) noexcept;
  File& operator=(File&& other) noexcept;
  ~File();

  const std::string& path() const { return path_; }
  Caching caching() const { return caching_.load(std::memory_order_relaxed); }
  Index size() const;
  /// Reserves space. Returns false where the file system cannot (EOPNOTSUPP). Throws: Error when
  /// there is no space.
  bool reserve(Index bytes) const;
  /// With direct caching data, offset and bytes are multiples of direct_alignment.
  void write_at(Index offset, const void* data, Index bytes) const;
  /// Reads up to `bytes`; returns how many there were before the end of the file.
  Index read_at(Index offset, void* data, Index bytes) const;
  /// A hint that these bytes will be read soon; what the kernel does with it is its own affair.
  void will_need(Index offset, Index bytes) const;
  void truncate(Index bytes) const;
  void sync() const;
  /// Sets its modification time to now; returns whether that worked.
  bool touch() const;
  /// Checks the return code of close(2), which the destructor cannot.
  void close();

  static constexpr Index direct_alignment = 4096;

 private:
  File(std::string path, int descriptor, Caching caching);
  static File open_with(const std::string& path, int flags, Caching caching);
  bool fall_back(Caching used) const;

  std::string path_;
  int descriptor_ = -1;
  mutable std::atomic<Caching> caching_;
};

/// Throws: Error also when there are more than `limit_bytes`.
std::string read_whole(const std::string& path, Index limit_bytes);
/// The whole lines among its last `limit_bytes`; empty where there is no such file.
std::string read_last_lines(const std::string& path, Index limit_bytes);
/// Adds a line, which ends with \n, and syncs; makes the file where there is none. What a crash has
/// left of a line before it becomes a line.
void append_line(const std::string& path, const std::string& line);
/// Writes and syncs a new file.
void write_whole(const std::string& path, const std::string& text);
/// Also when it is there already.
void make_directory(const std::string& path);
void sync_directory(const std::string& path);
void rename_path(const std::string& from, const std::string& to);
/// Replaces nothing. Throws: Error when `to` exists.
void rename_new(const std::string& from, const std::string& to);
/// Exchanges two directories atomically; returns false if the file system cannot.
bool exchange_paths(const std::string& a, const std::string& b);
/// Also when it is gone already.
void remove_file(const std::string& path);
/// An empty directory; also when it is gone already.
void remove_directory(const std::string& path);
/// Names in a directory, sorted, without "." and "..".
std::vector<std::string> list_directory(const std::string& path);

}  // namespace trireme
