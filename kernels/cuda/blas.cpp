// Plans of products, and how they run: in one call of cuBLASLt, or in one for the product and
// kernels of our own for the rest.
#include "kernels/cuda/blas.h"

#include "trireme/kernels/activation.h"
#include "trireme/kernels/elementwise.h"

#include "kernels/cuda/cuda_device.h"

namespace trireme::kernels {

Blas::Blas(const std::string& gpu, const std::string& cache)
    : cache_(cache, gpu, str("cuBLASLt ", cublasLtGetVersion())) {
  cublasLtHandle_t handle = nullptr;
  check(cublasLtCreate(&handle), "cublasLtCreate");
  handle_.reset(handle);
}

/// Nothing to do besides the product itself and its bias.
bool Blas::is_plain(const Gemm& p) {
  return p.epilogue == Epilogue::none && p.bias_gradient == nullptr;
}

/// GELU of f32 stays a kernel of our own: how exact cuBLASLt's tanh is is not documented, and f32
/// is there to agree with CPUs.
bool Blas::may_fuse(const Gemm& p) {
  return p.epilogue == Epilogue::none || p.result == DType::bf16;
}

Gemm Blas::plain_part(const Gemm& p) {
  Gemm plain = p;
  if (p.epilogue == Epilogue::gelu) plain.c = p.gelu_input;
  plain.epilogue = Epilogue::none;
  plain.gelu_input = nullptr;
  plain.bias_gradient = nullptr;
  return plain;
}

void Blas::finish(Stream& stream, const Gemm& p) {
  const ActivationKernels& activation = stream.kernels().activation;
  if (p.epilogue == Epilogue::gelu)
    activation.forward(stream, {.kind = Activation::gelu_tanh,
                                .count = p.m * p.n,
                                .x = p.gelu_input,
                                .y = p.c,
                                .dtype = p.result});
  if (p.epilogue == Epilogue::gelu_gradient)
    activation.backward(stream, {.kind = Activation::gelu_tanh,
                                 .count = p.m * p.n,
                                 .x = p.gelu_input,
                                 .dy = p.c,
                                 .dx = p.c,
                                 .dtype = p.result});
  if (p.bias_gradient == nullptr) return;
  if (p.write_bias_gradient == Write::assign)
    stream.zero(p.bias_gradient, p.m * static_cast<Index>(sizeof(float)));
  stream.kernels().elementwise.bias_backward(
      stream,
      {.rows = p.k, .channels = p.m, .dy = p.a, .dbias = p.bias_gradient, .dtype = p.dtype});
}

Blas::Plan& Blas::plan_of(const Gemm& p) {
  const ProductKey key = ProductKey::of(p);
  const std::lock_guard lock(mutex_);
  auto found = plans_.find(key);
  if (found == plans_.end()) {
    BlasProduct product(handle_.get(), p);
    const Choice choice = first_choice(product, p);
    found = plans_.emplace(key, Plan{std::move(product), choice}).first;
  }
  return found->second;
}

/// Without timing, a bias gradient is a pass of its own: inside the product it is free or very
/// slow, depending on the shape.
Blas::Choice Blas::first_choice(const BlasProduct& product, const Gemm& p) const {
  if (p.bias_gradient != nullptr || !may_fuse(p)) return {Fusion::separate, {}};
  const auto recommended = product.recommended(1);
  if (!recommended.empty()) return {Fusion::fused, recommended.front()};
  require(!is_plain(p), "cuBLAS has no algorithm for ", ProductKey::of(p).text());
  return {Fusion::separate, {}};
}

void Blas::run(CudaStream& stream, const Gemm& p) {
  const Plan& plan = plan_of(p);
  run(stream, p, plan.product, plan.choice);
}

void Blas::run(CudaStream& stream, const Gemm& p, const BlasProduct& product,
               const Choice& choice) {
  if (choice.fusion == Fusion::separate) {
    run(stream, plain_part(p));
    return finish(stream, p);
  }
  Gemm fused = p;
  const bool adds = p.bias_gradient != nullptr && p.write_bias_gradient == Write::add;
  if (adds) fused.bias_gradient = static_cast<float*>(p.workspace);
  {
    const std::lock_guard lock(mutex_);
    product.run(cuda_stream_of(stream), stream.gemm_workspace(), fused, choice.algorithm);
  }
  if (adds)
    stream.kernels().elementwise.add(stream,
                                     {p.m, p.bias_gradient, fused.bias_gradient, p.bias_gradient});
}

}  // namespace trireme::kernels
