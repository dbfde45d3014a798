// Attention of the CUDA table: checks, and the choice of kernels.
#include "kernels/attention.h"
#include "kernels/cuda/attention.cuh"

namespace trireme::kernels {
namespace {

/// Tensor cores take 16 bytes at once: arrays with other alignments use `simt`, which accepts any.
bool use_mma(Stream& stream, const AttentionShape& s, DType dtype, AttentionChoice asked,
             std::initializer_list<const void*> arrays) {
  if (gpu_attention_choice(stream.device().traits(), s, dtype, asked) != AttentionChoice::mma)
    return false;
  const bool aligned = gpu::attention_aligned(s, arrays);
  require(aligned || asked != AttentionChoice::mma,
          "attention by mma needs arrays at multiples of 16 bytes");
  return aligned;
}

void forward(Stream& stream, const AttentionForward& p) {
  check_gpu_attention(p.shape, p.dtype);
  if (p.shape.batch == 0) return;
  use_mma(stream, p.shape, p.dtype, p.choice, {p.qkv, p.y}) ? attention_forward_mma(stream, p)
                                                            : attention_forward_simt(stream, p);
}

void backward(Stream& stream, const AttentionBackward& p) {
  check_gpu_attention(p.shape, p.dtype);
  require(p.workspace != nullptr, "attention needs its workspace");
  if (p.shape.batch == 0) return;
  use_mma(stream, p.shape, p.dtype, p.choice, {p.qkv, p.y, p.dy, p.dqkv})
      ? attention_backward_mma(stream, p)
      : attention_backward_simt(stream, p);
}

}  // namespace

const AttentionKernels& cuda_table(const AttentionKernels*) {
  static constexpr AttentionKernels kernels = {forward, backward};
  return kernels;
}

}  // namespace trireme::kernels
