// Strips ascend in the file (both boxes are row-major), so the ones that a block holds are found by
// binary search.
#include "runtime/store/strips.h"

#include <algorithm>
#include <cstring>

namespace trireme::store {

namespace {

Index first_byte(const PackedBox& packed, const Box& both, Index item_bytes) {
  const Shape strides = packed.box.size.packed_strides();
  Index items = 0;
  for (int d = 0; d < both.size.dims(); ++d)
    items += (both.begin[d] - packed.box.begin[d]) * strides[d];
  return packed.offset_bytes + items * item_bytes;
}

}  // namespace

std::optional<Box> intersection(const Box& a, const Box& b) {
  Box both = a;
  for (int d = 0; d < a.size.dims(); ++d) {
    both.begin[d] = std::max(a.begin[d], b.begin[d]);
    both.size[d] = std::min(a.begin[d] + a.size[d], b.begin[d] + b.size[d]) - both.begin[d];
    if (both.size[d] <= 0) return {};
  }
  return both;
}

Strips::Strips(const PackedBox& file, const PackedBox& memory, const Box& both, Index item_bytes)
    : bytes_(item_bytes),
      first_file_(first_byte(file, both, item_bytes)),
      first_memory_(first_byte(memory, both, item_bytes)) {
  // A strip goes over the last dims as long as all of the inner ones are whole in both boxes.
  int inner = both.size.dims();
  for (bool whole = true; whole && inner > 0;) {
    --inner;
    bytes_ *= both.size[inner];
    whole = both.size[inner] == file.box.size[inner] && both.size[inner] == memory.box.size[inner];
  }
  outer_dims_ = inner;
  const Shape in_file = file.box.size.packed_strides(),
              in_memory = memory.box.size.packed_strides();
  for (int d = 0; d < outer_dims_; ++d) {
    dims_[static_cast<std::size_t>(d)] = {both.size[d], in_file[d] * item_bytes,
                                          in_memory[d] * item_bytes};
    count_ *= both.size[d];
  }
}

Index Strips::in_file(Index strip) const {
  Index offset = first_file_;
  for (int d = outer_dims_ - 1; d >= 0; --d) {
    const Dim& dim = dims_[static_cast<std::size_t>(d)];
    offset += strip % dim.extent * dim.file_stride;
    strip /= dim.extent;
  }
  return offset;
}

Index Strips::in_memory(Index strip) const {
  Index offset = first_memory_;
  for (int d = outer_dims_ - 1; d >= 0; --d) {
    const Dim& dim = dims_[static_cast<std::size_t>(d)];
    offset += strip % dim.extent * dim.memory_stride;
    strip /= dim.extent;
  }
  return offset;
}

Index Strips::first_ending_after(Index file_byte) const {
  Index low = 0, high = count_;
  while (low < high) {
    const Index middle = low + (high - low) / 2;
    if (in_file(middle) + bytes_ > file_byte)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

bool Strips::touch(Index from, Index to) const {
  const Index strip = first_ending_after(from);
  return strip < count_ && in_file(strip) < to;
}

void Strips::copy(Index from, Index to, const std::byte* source, std::byte* memory) const {
  for (Index strip = first_ending_after(from); strip < count_; ++strip) {
    const Index offset = in_file(strip);
    if (offset >= to) return;
    const Index begin = std::max(from, offset), end = std::min(to, offset + bytes_);
    std::memcpy(memory + in_memory(strip) + (begin - offset), source + (begin - from),
                static_cast<std::size_t>(end - begin));
  }
}

}  // namespace trireme::store
