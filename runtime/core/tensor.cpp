// Tensors, their shapes and types, and boxes of them.
#include "trireme/core/tensor.h"

#include <algorithm>
#include <cstdint>

#include "trireme/core/box.h"
#include "trireme/core/dtype.h"
#include "trireme/core/error.h"
#include "trireme/core/shape.h"

namespace trireme {

bool Tensor::packed() const {
  Index stride = 1;
  for (int d = shape.dims() - 1; d >= 0; --d) {
    if (shape[d] != 1 && strides[d] != stride) return false;
    stride *= shape[d];
  }
  return true;
}

namespace {

/// Defined for all extents: a wrong shape can be made, and the message that refuses it shows it.
Index wrapping_product(Index a, Index b) {
  return static_cast<Index>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

}  // namespace

Shape::Shape(std::initializer_list<Index> extents)
    : Shape(std::span<const Index>(extents.begin(), extents.size())) {}

Shape::Shape(std::span<const Index> extents) {
  for (const Index extent : extents) push_back(extent);
}

void Shape::push_back(Index extent) {
  require(dims_ < max_dims, "a tensor has at most ", max_dims, " dims");
  extents_[static_cast<std::size_t>(dims_++)] = extent;
}

Index Shape::count() const {
  Index n = 1;
  for (const Index extent : *this) n = wrapping_product(n, extent);
  return n;
}

Shape Shape::packed_strides() const {
  Shape strides = *this;
  Index stride = 1;
  for (int d = dims_ - 1; d >= 0; --d) {
    strides[d] = stride;
    stride = wrapping_product(stride, (*this)[d]);
  }
  return strides;
}

bool operator==(const Shape& a, const Shape& b) {
  return a.dims_ == b.dims_ && std::equal(a.begin(), a.end(), b.begin());
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  out << '(';
  for (int d = 0; d < shape.dims(); ++d) out << (d ? ", " : "") << shape[d];
  return out << ')';
}

Index size_bytes(DType dtype) {
  switch (dtype) {
    case DType::f32:
    case DType::i32:
      return 4;
    case DType::bf16:
      return 2;
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::u8:
      return 1;
  }
  return 0;
}

const char* name(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return "f32";
    case DType::bf16:
      return "bf16";
    case DType::f64:
      return "f64";
    case DType::i32:
      return "i32";
    case DType::i64:
      return "i64";
    case DType::u8:
      return "u8";
  }
  return "?";
}

bool is_floating(DType dtype) {
  return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f64;
}

std::ostream& operator<<(std::ostream& out, DType dtype) { return out << name(dtype); }

namespace {

// Appends the boxes of flat range [begin, end) inside dims [dim, ...) of `box`; outer dims are
// fixed in `prefix`.
void append(const Box& box, int dim, Index begin, Index end, Box& prefix, std::vector<Box>& out) {
  if (begin >= end) return;
  Index inner = 1;
  for (int d = dim + 1; d < box.size.dims(); ++d) inner *= box.size[d];
  const auto fix = [&](Index from, Index extent) {
    prefix.begin[dim] = box.begin[dim] + from;
    prefix.size[dim] = extent;
  };
  const Index first = begin / inner, first_rest = begin % inner;
  const Index last = end / inner, last_rest = end % inner;
  if (first_rest == 0 && last_rest == 0) {  // whole rows of this dim: one box
    fix(first, last - first);
    for (int d = dim + 1; d < box.size.dims(); ++d) {
      prefix.begin[d] = box.begin[d];
      prefix.size[d] = box.size[d];
    }
    out.push_back(prefix);
    return;
  }
  if (first == last) {
    fix(first, 1);
    append(box, dim + 1, first_rest, last_rest, prefix, out);
    return;
  }
  Index middle = first;
  if (first_rest != 0) {
    fix(first, 1);
    append(box, dim + 1, first_rest, inner, prefix, out);
    middle = first + 1;
  }
  append(box, dim, middle * inner, last * inner, prefix, out);
  if (last_rest != 0) {
    fix(last, 1);
    append(box, dim + 1, 0, last_rest, prefix, out);
  }
}

}  // namespace

std::vector<Box> boxes_of_flat_range(const Box& box, Index begin, Index end) {
  require(0 <= begin && begin <= end && end <= box.count(), "flat range [", begin, ", ", end,
          ") does not lie in a box of ", box.count(), " elements");
  std::vector<Box> out;
  if (box.size.dims() == 0) {
    if (begin < end) out.push_back(box);
    return out;
  }
  Box prefix = box;
  append(box, 0, begin, end, prefix, out);
  return out;
}

}  // namespace trireme
