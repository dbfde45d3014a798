// Strips: the elements that two boxes of a tensor share, as the ranges that are contiguous in both:
// in the file, where the stored box is packed, and in memory, where the wanted one is.
#pragma once

#include <array>
#include <optional>

#include "trireme/core/box.h"

namespace trireme::store {

/// What both boxes hold; nothing when that is empty.
std::optional<Box> intersection(const Box& a, const Box& b);

/// A packed box, and where its first element lies.
struct PackedBox {
  Box box;
  Index offset_bytes = 0;
};

class Strips {
 public:
  /// `both`: inside of `file.box` and of `memory.box`, not empty.
  Strips(const PackedBox& file, const PackedBox& memory, const Box& both, Index item_bytes);

  /// Bytes of the file from the first to the last element.
  Index begin() const { return first_file_; }
  Index end() const { return in_file(count_ - 1) + bytes_; }
  /// Whether any element is in bytes [from, to) of the file.
  bool touch(Index from, Index to) const;
  /// Copies what lies in bytes [from, to) of the file, which are at `source`, to the box at
  /// `memory`.
  void copy(Index from, Index to, const std::byte* source, std::byte* memory) const;

 private:
  struct Dim {
    Index extent, file_stride, memory_stride;  // strides in bytes
  };
  Index in_file(Index strip) const;
  Index in_memory(Index strip) const;
  Index first_ending_after(Index file_byte) const;

  std::array<Dim, Shape::max_dims> dims_{};  // outer dims, over which strips are counted
  int outer_dims_ = 0;
  Index count_ = 1, bytes_ = 0;  // strips, bytes of each
  Index first_file_ = 0, first_memory_ = 0;
};

}  // namespace trireme::store
