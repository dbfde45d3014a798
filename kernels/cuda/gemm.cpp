// Matrix products by cuBLASLt. fp32 operands stay fp32: TF32 would round them to 10 bits, and
// results would no longer agree with CPUs.
#include "kernels/gemm.h"

#include "kernels/cuda/blas.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/strided.h"

namespace trireme::kernels {
namespace {

/// Nothing to multiply: c becomes zeros, or the bias in every row.
void assign_bias(Stream& stream, const Gemm& p) {
  const auto bytes = [&](Index count) {
    return static_cast<std::size_t>(count * size_bytes(p.result));
  };
  if (p.bias == nullptr)
    return check(cudaMemset2DAsync(p.c, bytes(p.ldc), 0, bytes(p.n), static_cast<std::size_t>(p.m),
                                   cuda_stream_of(stream)),
                 "cudaMemset2DAsync");
  Tensor to(p.c, {p.m, p.n}, p.result), from(const_cast<void*>(p.bias), {p.m, p.n}, p.result);
  to.strides = {p.ldc, 1};
  from.strides = {0, 1};
  cuda_copy_strided(stream, to, from, Write::assign);
}

Blas& blas_of(Stream& stream) { return static_cast<CudaStream&>(stream).cuda().blas(); }

void run(Stream& stream, const Gemm& p) {
  check_gemm(p);
  check_workspace(p, gemm_workspace_bytes(stream.device().traits(), p));
  if (p.m == 0 || p.n == 0) return;
  if (p.k > 0) return blas_of(stream).run(static_cast<CudaStream&>(stream), p);
  if (p.write == Write::assign) assign_bias(stream, Blas::plain_part(p));
  Blas::finish(stream, p);
}

GemmPreparation prepare(Stream& stream, const Gemm& p) {
  check_gemm(p);
  if (p.m == 0 || p.n == 0 || p.k == 0) return {};
  return blas_of(stream).prepare(static_cast<CudaStream&>(stream), p);
}

}  // namespace

const GemmKernels& cuda_table(const GemmKernels*) {
  static constexpr GemmKernels kernels = {run, prepare};
  return kernels;
}

}  // namespace trireme::kernels
