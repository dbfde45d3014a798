#include "trireme/core/shape.h"

#include <algorithm>
#include <cstdint>

#include "trireme/core/error.h"

namespace trireme {
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

}  // namespace trireme
