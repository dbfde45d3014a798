#include "runtime/nn/products.h"

#include "trireme/kernels/gemm.h"
#include "trireme/kernels/kernels.h"

namespace trireme::nn {

Gemm forward_product(const Tensor& x, const Tensor& w, const Tensor& y) {
  return {.m = y.shape[0],
          .n = y.shape[1],
          .k = x.shape[1],
          .a = x.data,
          .lda = x.strides[0],
          .b = w.data,
          .ldb = w.strides[0],
          .transpose_b = Transpose::yes,
          .c = y.data,
          .ldc = y.strides[0],
          .dtype = x.dtype,
          .result = y.dtype};
}

Gemm input_gradient(const Tensor& dy, const Tensor& w, const Tensor& dx, Write write) {
  return {.m = dx.shape[0],
          .n = dx.shape[1],
          .k = dy.shape[1],
          .a = dy.data,
          .lda = dy.strides[0],
          .b = w.data,
          .ldb = w.strides[0],
          .c = dx.data,
          .ldc = dx.strides[0],
          .write = write,
          .dtype = dy.dtype,
          .result = dx.dtype};
}

Gemm weight_gradient(const Tensor& dy, const Tensor& x, const Tensor& dw, Write write) {
  return {.m = dw.shape[0],
          .n = dw.shape[1],
          .k = dy.shape[0],
          .a = dy.data,
          .lda = dy.strides[0],
          .transpose_a = Transpose::yes,
          .b = x.data,
          .ldb = x.strides[0],
          .c = dw.data,
          .ldc = dw.strides[0],
          .write = write,
          .dtype = dy.dtype,
          .result = dw.dtype};
}

void multiply(Stream& stream, Gemm product, void* workspace) {
  product.workspace = workspace;
  stream.kernels().gemm.run(stream, product);
}

void prepare(Stream& stream, Gemm product, void* workspace, Preparation& preparation) {
  product.workspace = workspace;
  const GemmPreparation choice = stream.kernels().gemm.prepare(stream, product);
  preparation.timed += choice.source == GemmPreparation::Source::timed;
  preparation.stored += choice.source == GemmPreparation::Source::stored;
  if (!choice.note.empty()) preparation.notes.push_back(choice.note);
}

Index product_bytes(const Graph& graph, const Gemm& product) {
  return gemm_workspace_bytes(graph.device(), product);
}

Tensor without_memory(const Spec& spec) {
  Tensor t(nullptr, spec.shape, spec.dtype);
  t.strides = spec.strides;
  return t;
}

}  // namespace trireme::nn
