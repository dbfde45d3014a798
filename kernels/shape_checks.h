// What every device checks of the shapes it is given, with the same messages.
#pragma once

#include "trireme/core/error.h"
#include "trireme/kernels/kernels.h"

namespace trireme {

// Each throws an Error that names the size, the pointer or the type that does not fit.

/// Activations and weights are stored as f32 or bf16.
inline void check_storage(DType dtype, const char* what) {
  require(dtype == DType::f32 || dtype == DType::bf16, what, " of ", dtype,
          ": kernels compute on f32 and bf16");
}

inline void check_attention(const AttentionShape& s) {
  require(s.batch >= 0 && s.sequence >= 1 && s.head_dim >= 1, "attention over batch ", s.batch,
          ", sequence ", s.sequence, ", head_dim ", s.head_dim);
  require(s.kv_heads >= 1 && s.query_heads >= s.kv_heads && s.query_heads % s.kv_heads == 0,
          s.query_heads, " query heads cannot share ", s.kv_heads, " key and value heads evenly");
}

inline void check_norm(const NormForward& p) {
  require(p.rows >= 0 && p.channels >= 1, "norm of (", p.rows, ", ", p.channels, ")");
  check_storage(p.dtype, "norm");
  require((p.delta == nullptr) == (p.sum == nullptr),
          "a norm has `sum` exactly when it has `delta`");
  require((p.mean != nullptr) == (p.kind == NormKind::layer),
          "a norm has `mean` exactly when it is a layer norm");
  require(p.rstd != nullptr && p.weight != nullptr, "a norm needs `weight` and `rstd`");
}

inline void check_norm(const NormBackward& p) {
  require(p.rows >= 0 && p.channels >= 1, "norm gradient of (", p.rows, ", ", p.channels, ")");
  check_storage(p.dtype, "norm gradient");
  require((p.mean != nullptr) == (p.kind == NormKind::layer),
          "a norm has `mean` exactly when it is a layer norm");
  const bool parameters = p.dweight != nullptr || p.dbias != nullptr;
  require(!parameters || p.workspace != nullptr,
          "the parameter gradients of a norm need workspace");
}

inline void check_activation(const ActivationForward& p) {
  require(p.count >= 0, "activation of ", p.count, " elements");
  check_storage(p.dtype, "activation");
}

inline void check_activation(const ActivationBackward& p) {
  require(p.count >= 0, "activation gradient of ", p.count, " elements");
  check_storage(p.dtype, "activation gradient");
}

inline void check_activation(const SwigluForward& p) {
  require(p.rows >= 0 && p.channels >= 1, "swiglu of (", p.rows, ", ", p.channels, ")");
  check_storage(p.dtype, "swiglu");
}

inline void check_activation(const SwigluBackward& p) {
  require(p.rows >= 0 && p.channels >= 1, "swiglu gradient of (", p.rows, ", ", p.channels, ")");
  check_storage(p.dtype, "swiglu gradient");
}

inline void check_rotary(const Rotary& p) {
  check_storage(p.dtype, "rotary embedding");
  require(p.head_dim >= 2 && p.head_dim % 2 == 0, "rotary embedding turns pairs: head_dim ",
          p.head_dim, " is odd");
  require(p.sequence >= 1 && p.rows % p.sequence == 0, "rotary embedding of ", p.rows,
          " rows that are not whole sequences of ", p.sequence);
  require(p.heads * p.head_dim <= p.row_stride, p.heads, " heads of ", p.head_dim,
          " do not fit in rows of ", p.row_stride);
}

inline void check_elementwise(const Addition& p) {
  require(p.count >= 0, "add of ", p.count, " elements");
  check_storage(p.dtype, "add");
}
inline void check_elementwise(const BiasAdd& p) {
  require(p.rows >= 0 && p.channels >= 0, "bias of (", p.rows, ", ", p.channels, ")");
  check_storage(p.dtype, "bias");
}
inline void check_elementwise(const BiasBackward& p) {
  require(p.rows >= 0 && p.channels >= 0, "bias gradient of (", p.rows, ", ", p.channels, ")");
  check_storage(p.dtype, "bias gradient");
}
inline void check_elementwise(const Dropout& p) {
  require(p.rate >= 0 && p.rate < 1, "dropout rate ", p.rate, " is not in [0, 1)");
  require(p.count >= 0 && p.first_element >= 0, "dropout of ", p.count, " elements from ",
          p.first_element);
  check_storage(p.dtype, "dropout");
}
inline void check_elementwise(const SquaredErrorForward& p) {
  require(p.count >= 0, "squared error of ", p.count, " elements");
  check_storage(p.dtype, "squared error");
}
inline void check_elementwise(const SquaredErrorBackward& p) {
  require(p.count >= 0, "squared error gradient of ", p.count, " elements");
  check_storage(p.dtype, "squared error gradient");
}

inline void check_embedding(const EmbeddingForward& p) {
  require(p.rows >= 0 && p.channels >= 1, "embedding of (", p.rows, ", ", p.channels, ")");
  check_storage(p.dtype, "embedding");
}
inline void check_embedding(Stream& stream, const EmbeddingBackward& p) {
  require(p.rows >= 0 && p.channels >= 1, "embedding gradient of (", p.rows, ", ", p.channels, ")");
  check_storage(p.dtype, "embedding gradient");
  const Index wanted = stream.kernels().embedding.backward_workspace_bytes(stream.device(), p.rows);
  require(wanted == 0 || p.workspace != nullptr, "the gradient of an embedding of ", p.rows,
          " rows needs ", wanted, " bytes of workspace on this device");
}
/// PositionForward, PositionBackward.
template <class Positions>
void check_positions(const Positions& p) {
  require(p.rows >= 0 && p.channels >= 1 && p.sequence >= 1 && p.first_row >= 0, "positions of (",
          p.rows, ", ", p.channels, ") in sequences of ", p.sequence, " from row ", p.first_row);
  check_storage(p.dtype, "positions");
}

inline void check_cross_entropy(const CrossEntropyPartial& p) {
  require(p.rows >= 0 && p.columns >= 0 && p.columns <= p.row_stride, "cross-entropy over ",
          p.columns, " columns of rows of ", p.row_stride);
  check_storage(p.dtype, "cross-entropy");
}

inline void check_cross_entropy(const CrossEntropyCombine& p) {
  require(p.rows >= 0 && p.ranks >= 1, "cross-entropy of ", p.rows, " rows over ", p.ranks,
          " ranks");
}

inline void check_cross_entropy(const CrossEntropyBackward& p) {
  require(p.columns >= 0 && p.columns <= p.padded_columns && p.padded_columns <= p.row_stride,
          "cross-entropy gradient over ", p.columns, " columns, ", p.padded_columns,
          " with padding, of rows of ", p.row_stride);
  check_storage(p.dtype, "cross-entropy gradient");
}

inline void check_optimizer(const AdamW& p) {
  require(p.list.count >= 0, "AdamW of ", p.list.count, " ranges");
  require(p.bias_correction1 > 0 && p.bias_correction2 > 0, "AdamW's bias corrections are ",
          p.bias_correction1, " and ", p.bias_correction2, ": steps count from 1");
  require(p.decision != nullptr, "AdamW needs the decision that the norm of gradients led to");
}

inline void check_optimizer(const Sgd& p) {
  require(p.list.count >= 0, "SGD of ", p.list.count, " ranges");
  require(p.momentum == 0 || p.momentum_buffer != nullptr, "SGD with momentum ", p.momentum,
          " needs its buffer");
  require(p.decision != nullptr, "SGD needs the decision that the norm of gradients led to");
}

inline void check_optimizer(const SumOfSquares& p) {
  require(p.list.count >= 0, "sum of squares over ", p.list.count, " ranges");
}

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

}  // namespace trireme
