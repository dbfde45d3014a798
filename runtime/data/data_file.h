// DataFile: a file that is read at given offsets. It is not mapped into memory: if a mapped file is
// truncated, or its file system disappears, an access ends the process with SIGBUS, whereas read(2)
// returns an error.
#pragma once

#include <algorithm>
#include <array>
#include <string>

#include "trireme/core/dtype.h"

namespace trireme::data {

/// Safe to read from several threads.
class DataFile {
 public:
  /// Throws: Error with the path and the system's reason.
  explicit DataFile(const std::string& path);

  const std::string& path() const { return path_; }
  /// When it was opened.
  Index bytes() const { return bytes_; }
  /// Reads bytes [offset, offset + count), within bytes(). Throws: Error when they no longer exist.
  void read(Index offset, void* out, Index count) const;
  /// The T at byte `offset`, aligned or not.
  template <class T>
  T at(Index offset) const;
  /// Calls use(i, value) for `count` values of type T, one after the other from byte `offset` on.
  /// Allocates nothing.
  template <class T, class Use>
  void for_each(Index offset, Index count, Use&& use) const;

 private:
  struct Descriptor {
    explicit Descriptor(int number_) : number(number_) {}
    ~Descriptor();
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    int number;
  };

  std::string path_;
  Descriptor file_;
  Index bytes_ = 0;
};

template <class T>
T DataFile::at(Index offset) const {
  T value;
  read(offset, &value, sizeof value);
  return value;
}

template <class T, class Use>
void DataFile::for_each(Index offset, Index count, Use&& use) const {
  constexpr Index piece_bytes = 16384;
  std::array<T, piece_bytes / sizeof(T)> piece;
  const Index most = static_cast<Index>(piece.size()), size = sizeof(T);
  for (Index first = 0; first < count; first += most) {
    const Index values = std::min(most, count - first);
    read(offset + first * size, piece.data(), values * size);
    for (Index i = 0; i < values; ++i) use(first + i, piece[static_cast<std::size_t>(i)]);
  }
}

}  // namespace trireme::data
