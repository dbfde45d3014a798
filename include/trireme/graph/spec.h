// Spec: what is known about a value while tracing: shape, element type, strides. No memory.
#pragma once

#include <ostream>
#include <vector>

#include "trireme/core/error.h"
#include "trireme/core/shape.h"

namespace trireme {

struct Spec {
  Shape shape;
  DType dtype = DType::f32;
  Shape strides;  // in elements

  Spec() = default;
  /// Packed.
  Spec(Shape shape_, DType dtype_ = DType::f32)  // NOLINT(google-explicit-constructor)
      : shape(shape_), dtype(dtype_), strides(shape_.packed_strides()) {}
  Spec(std::initializer_list<Index> extents) : Spec(Shape(extents)) {}

  bool packed() const;
  /// Bytes of a packed tensor of this shape.
  Index bytes() const { return shape.count() * size_bytes(dtype); }
  /// A view: elements [begin, end) along `dim`, the same strides. Throws: Error when out of range.
  Spec sliced(int dim, Index begin, Index end) const;
  /// A view with other dims. Throws: Error when not packed or the counts differ.
  Spec reshaped(Shape shape) const;
};

using Specs = std::vector<Spec>;

/// f32 (2, 256)
std::ostream& operator<<(std::ostream& out, const Spec& spec);

}  // namespace trireme
