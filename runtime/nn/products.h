// The three products of a layer y = x weight^T, for all ops that have such a layer in them. Their
// workspace is queried while tracing, with tensors that have no memory yet.
#pragma once

#include "trireme/graph/graph.h"
#include "trireme/kernels/gemm.h"

namespace trireme::nn {

/// y = x weight^T
Gemm forward_product(const Tensor& x, const Tensor& weight, const Tensor& y);
/// dx = dy weight
Gemm input_gradient(const Tensor& dy, const Tensor& weight, const Tensor& dx, Write write);
/// dweight = dy^T x
Gemm weight_gradient(const Tensor& dy, const Tensor& x, const Tensor& dweight, Write write);

/// Runs with `workspace`, product_bytes of it.
void multiply(Stream& stream, Gemm product, void* workspace);
/// Does the one-time work of such products (GemmKernels::prepare).
void prepare(Stream& stream, Gemm product, void* workspace, Preparation& preparation);
Index product_bytes(const Graph& graph, const Gemm& product);
Tensor without_memory(const Spec& spec);

}  // namespace trireme::nn
