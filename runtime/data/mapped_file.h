// MappedFile: a whole file as read-only memory. Owns the mapping.
#pragma once

#include <cstddef>
#include <cstring>
#include <string>

#include "trireme/core/dtype.h"

namespace trireme {

class MappedFile {
 public:
  /// Throws: Error with the path and the system's reason.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& path() const { return path_; }
  const std::byte* data() const { return data_; }
  Index bytes() const { return bytes_; }
  /// The T at byte `offset`, aligned or not. The caller knows that it lies inside.
  template <class T>
  T at(Index offset) const {
    T value;
    std::memcpy(&value, data_ + offset, sizeof value);
    return value;
  }

 private:
  std::string path_;
  std::byte* data_ = nullptr;
  Index bytes_ = 0;
};

}  // namespace trireme
