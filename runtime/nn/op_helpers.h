// What the ops of this module share: checking shapes, and asking Exec for gradients
// the way kernels want them.
#pragma once

#include <memory>
#include <utility>

#include "trireme/graph/graph.h"
#include "trireme/kernels/kernels.h"
#include "trireme/kernels/write.h"

namespace trireme::nn {

inline Index tensor_rank(Value x) { return x.graph().tensor_rank(); }
inline Index tensor_size(Value x) { return x.graph().tensor_size(); }

/// An op on trireme's kernels, which store activations and weights as f32 or bf16. `infer` checks
/// its inputs.
class KernelOp : public Op {
 public:
  bool works_in(DType) const override { return true; }
  bool works_on(DeviceKind) const override { return true; }
};

/// The types that activations and weights may have.
inline bool is_stored(DType dtype) { return dtype == DType::f32 || dtype == DType::bf16; }

inline void require_rows(const Spec& x, const char* what) {
  require(x.shape.dims() == 2 && is_stored(x.dtype), what,
          " is a matrix of token rows, f32 or bf16 (rows, channels), not ", x);
}
/// `like`: the activation it is combined with, whose type it must have.
inline void require_rows_like(const Spec& like, const Spec& x, const char* what) {
  require(x.shape.dims() == 2 && x.dtype == like.dtype, what, " is a ", like.dtype, " matrix, not ",
          x);
}
inline void require_vector_like(const Spec& like, const Spec& x, Index count, const char* what) {
  require(x.shape == Shape({count}) && x.dtype == like.dtype, what, " is ", like.dtype, " (", count,
          "), not ", x);
}

/// Returns what an op may share that reads element i of its inputs and of the gradient before it
/// writes element i of the output and of the gradients.
inline Sharing elementwise_sharing(int inputs) {
  Sharing sharing;
  for (int i = 0; i < inputs; ++i) sharing.output_over_input(0, i);
  for (int i = 0; i < inputs; ++i) sharing.gradient_over_output(i, 0);
  return sharing;
}

/// How a kernel writes activation gradient i.
inline Write write_of(const Exec& e, int i) { return e.accumulate(i) ? Write::add : Write::assign; }

/// Gradient i of a weight, in f32, for a kernel that can only add: zeroed first where the runtime
/// wants an assignment. Null when it is not wanted.
inline float* gradient_to_add_to(Exec& e, int i) {
  if (!e.wants(i)) return nullptr;
  const Tensor& gradient = e.grad_input(i);
  if (!e.accumulate(i)) e.stream().zero(gradient.data, gradient.bytes());
  return gradient.as<float>();
}

inline double bytes_of(const Spec& spec) { return static_cast<double>(spec.bytes()); }
/// Bytes of the gradient of a weight like `spec`, once.
inline double gradient_bytes_of(const Spec& spec) {
  return static_cast<double>(spec.shape.count() * size_bytes(DType::f32));
}

/// y = x weight^T with x (rows, channels) and weight (out, channels), and the products of its two
/// gradients.
inline ProductWork forward_work(const Spec& x, const Spec& weight) {
  return {x.shape[0], weight.shape[0], weight.shape[1], 1, x.dtype};
}
inline ProductWork input_gradient_work(const Spec& x, const Spec& weight, bool adds) {
  return {x.shape[0], weight.shape[1], weight.shape[0], 1, x.dtype, x.dtype, adds};
}
inline ProductWork weight_gradient_work(const Spec& x, const Spec& weight, bool adds) {
  return {weight.shape[0], weight.shape[1], x.shape[0], 1, x.dtype, DType::f32, adds};
}

inline Elements elements(const Tensor& x) { return {x.data, x.count(), x.dtype}; }

/// Columns [first, first + count) of a matrix.
inline Tensor columns_of(const Tensor& x, Index first, Index count) {
  Tensor part = x;
  part.data = static_cast<std::byte*>(x.data) + first * x.strides[1] * size_bytes(x.dtype);
  part.shape[1] = count;
  return part;
}

/// Rows [first, first + count) of a matrix.
inline Tensor rows_of(const Tensor& x, Index first, Index count) {
  Tensor part = x;
  part.data = static_cast<std::byte*>(x.data) + first * x.strides[0] * size_bytes(x.dtype);
  part.shape[0] = count;
  return part;
}

}  // namespace trireme::nn
