// Reading rectangles of tensors in safetensors files as f32, in the order of the files, announced
// to the kernel ahead: long reads of whole rows, or, where the rest of a row is long enough to pay
// for a read of its own, of each row the wanted columns.
//
// Not installed; modules above may include it.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "runtime/store/read/reader.h"
#include "runtime/store/safetensors/directory.h"

namespace trireme::safetensors {

/// The dims of a tensor as two: a tensor of one dim, or none, has rows of one element; all dims but
/// the last of any other are folded into rows.
struct Rows {
  Index rows = 1, columns = 1;
};
Rows rows_of(const Shape& shape);

/// A part of a tensor whose type is an Element: elements (row + i, column + j), which go to
/// data[i * row_stride + j * column_stride].
struct Rectangle {
  const LocatedTensor* tensor = nullptr;
  Index row = 0, rows = 0, column = 0, columns = 0;
  float* data = nullptr;
  Index row_stride = 0, column_stride = 1;
  /// Rows count in RowsRead::sum, a KiB at a time, where the rectangle has the first element of it.
  /// Each KiB counts once when all rectangles of all readers that count cover the tensor once.
  bool counts = true;
};

struct RowsRead {
  ReadReport report;
  /// Sum, modulo 2^64, of a hash of each KiB that counts: of its bytes, its place, and the name of
  /// its tensor. Rectangles of any shapes that cover the same tensors have the same sum.
  std::uint64_t sum = 0;
};

/// Throws: Error that names the file, when it ends early or cannot be read; and that names the
/// tensor, when it has another type, or a rectangle is not inside. Each of `threads` threads calls
/// `has_read` after each of its reads.
RowsRead read_rectangles(const Directory& directory, const std::vector<Rectangle>& rectangles,
                         int threads, const std::function<void(Index bytes)>& has_read = {});

/// What a thread reads at a time, and the memory that it has: this, or a row that is longer.
inline constexpr Index piece_bytes = Index{512} << 10;

// A checksum of a few places of a model's files, which tells models with the same headers apart.

inline constexpr Index sampled_places = 32, sampled_bytes = 4096;  // and of each place

/// Returns the checksum of `sampled_bytes` at each of `sampled_places` places that lie evenly in
/// the values of all tensors; of fewer where a tensor ends. Throws: Error that names the file.
Checksum sample_of(const Directory& directory);

}  // namespace trireme::safetensors
