// Shape: the extents of a tensor's dims, in place, without allocation. Also used for strides (in
// elements).
#pragma once

#include <array>
#include <initializer_list>
#include <ostream>
#include <span>

#include "trireme/core/dtype.h"

namespace trireme {

class Shape {
 public:
  static constexpr int max_dims = 6;

  Shape() = default;
  Shape(std::initializer_list<Index> extents);
  explicit Shape(std::span<const Index> extents);

  int dims() const { return dims_; }
  Index operator[](int dim) const { return extents_[static_cast<std::size_t>(dim)]; }
  Index& operator[](int dim) { return extents_[static_cast<std::size_t>(dim)]; }
  Index back() const { return (*this)[dims_ - 1]; }
  /// Number of elements; 1 for a scalar (no dims).
  Index count() const;
  /// Number of rows when all dims but the last are folded into one.
  Index rows() const { return dims_ == 0 ? 1 : (back() == 0 ? 0 : count() / back()); }
  /// Strides, in elements, of a packed row-major tensor of this shape.
  Shape packed_strides() const;
  void push_back(Index extent);
  const Index* begin() const { return extents_.data(); }
  const Index* end() const { return extents_.data() + dims_; }

  friend bool operator==(const Shape& a, const Shape& b);

 private:
  std::array<Index, max_dims> extents_{};
  int dims_ = 0;
};

/// (2, 256, 384)
std::ostream& operator<<(std::ostream& out, const Shape& shape);

}  // namespace trireme
