// What the devices' copies between tensors with strides share: their check, and StridedRows, two
// tensors of one shape as rows. Dims that lie packed against each other are merged, so that most
// tensors become a few long rows.
#pragma once

#include "trireme/core/error.h"
#include "trireme/core/macros.h"
#include "trireme/core/tensor.h"
#include "trireme/kernels/write.h"

namespace trireme::kernels {

/// Throws: Error that names the shapes or the types.
inline void check_copy(const Tensor& to, const Tensor& from, Write write) {
  require(to.shape == from.shape, "copy between shapes ", from.shape, " and ", to.shape);
  const auto stores_floats = [](DType dtype) {
    return dtype == DType::f32 || dtype == DType::bf16;
  };
  require(to.dtype == from.dtype || (stores_floats(to.dtype) && stores_floats(from.dtype)),
          "copy between ", from.dtype, " and ", to.dtype, ": only f32 and bf16 convert");
  require(write == Write::assign || is_floating(to.dtype),
          "adding tensors is for f32, bf16 and f64, got ", to.dtype);
}

/// The elements of `a` and `b` in as few dims as both allow; the last dim is one row.
struct StridedRows {
  int dims = 0;  // all dims but the last
  Index extents[Shape::max_dims] = {}, stride_a[Shape::max_dims] = {},
        stride_b[Shape::max_dims] = {};
  Index length = 1, step_a = 1, step_b = 1;

  Index count() const {
    Index rows = 1;
    for (int d = 0; d < dims; ++d) rows *= extents[d];
    return rows;
  }
  /// Elements from the start of each tensor to row `row`.
  struct Offsets {
    Index a = 0, b = 0;
  };
  TRIREME_HD Offsets offsets(Index row) const {
    Offsets at;
    for (int d = dims - 1; d >= 0; --d) {
      const Index i = row % extents[d];
      at.a += i * stride_a[d];
      at.b += i * stride_b[d];
      row /= extents[d];
    }
    return at;
  }
};

inline StridedRows strided_rows(const Tensor& a, const Tensor& b) {
  StridedRows rows;
  for (int d = 0; d < a.shape.dims(); ++d) {
    if (a.shape[d] == 1) continue;
    const int last = rows.dims - 1;
    if (last >= 0 && rows.stride_a[last] == a.shape[d] * a.strides[d] &&
        rows.stride_b[last] == a.shape[d] * b.strides[d]) {
      rows.extents[last] *= a.shape[d];
      rows.stride_a[last] = a.strides[d];
      rows.stride_b[last] = b.strides[d];
    } else {
      rows.extents[rows.dims] = a.shape[d];
      rows.stride_a[rows.dims] = a.strides[d];
      rows.stride_b[rows.dims++] = b.strides[d];
    }
  }
  if (rows.dims == 0) return rows;
  --rows.dims;
  rows.length = rows.extents[rows.dims];
  rows.step_a = rows.stride_a[rows.dims];
  rows.step_b = rows.stride_b[rows.dims];
  return rows;
}

}  // namespace trireme::kernels
