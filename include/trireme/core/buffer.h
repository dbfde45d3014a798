// Buffer: the single owner of a block of memory of any kind (host, pinned, device, shared window).
#pragma once

#include <memory>
#include <utility>

#include "trireme/core/dtype.h"

namespace trireme {

class Buffer {
 public:
  Buffer() = default;
  /// Takes ownership of `data`. `owner` frees it (or leaves the window) with its last reference.
  Buffer(void* data, Index bytes, std::shared_ptr<void> owner)
      : data_(data), bytes_(bytes), owner_(std::move(owner)) {}
  Buffer(Buffer&& other) noexcept { *this = std::move(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    data_ = std::exchange(other.data_, nullptr);
    bytes_ = std::exchange(other.bytes_, 0);
    owner_ = std::move(other.owner_);
    return *this;
  }

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  Index bytes() const { return bytes_; }
  explicit operator bool() const { return data_ != nullptr; }

 private:
  void* data_ = nullptr;
  Index bytes_ = 0;
  std::shared_ptr<void> owner_;
};

/// Zero-filled host memory, aligned to 4096 bytes. Throws: Error when there is not enough memory.
Buffer allocate_host(Index bytes);

}  // namespace trireme
