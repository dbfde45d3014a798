// Attention of the CUDA table: checks, workspaces, and the choice of kernels.
#include "kernels/attention.h"
#include "kernels/cuda/attention.cuh"

namespace trireme {
namespace {

constexpr Index widest_head = 128;

void check(const AttentionShape& s, DType dtype) {
  check_attention(s);
  check_storage(dtype, "attention");
  require(s.head_dim <= widest_head, "attention on GPUs takes heads of up to ", widest_head,
          " elements, got head_dim ", s.head_dim);
}

AttentionChoice choice_on(const CudaDevice& gpu, const AttentionShape& s, DType dtype,
                          AttentionChoice asked) {
  return attention_choice({dtype, s.head_dim, s.sequence, gpu.capability()}, asked);
}

Index forward_workspace_bytes(Device& device, const AttentionShape& s, DType dtype,
                              AttentionChoice asked) {
  check(s, dtype);
  choice_on(static_cast<const CudaDevice&>(device), s, dtype, asked);
  return 0;
}

/// dy . y of every (batch, query head, token). Called before anything runs, so it is here that a
/// GPU that is too small is reported.
Index backward_workspace_bytes(Device& device, const AttentionShape& s, DType dtype,
                               AttentionChoice asked) {
  check(s, dtype);
  const auto& gpu = static_cast<const CudaDevice&>(device);
  const AttentionChoice choice = choice_on(gpu, s, dtype, asked);
  const Index wanted = attention_backward_simt_shared_bytes(s);
  require(choice == AttentionChoice::mma || wanted <= gpu.shared_bytes(),
          "the gradient of attention by simt with heads of ", s.head_dim, " in ", dtype, " needs ",
          wanted, " bytes of shared memory a block, and this GPU gives ", gpu.shared_bytes(),
          ": heads of up to 96, or of 128 by mma in bf16, need less");
  return s.batch * s.query_heads * s.sequence * static_cast<Index>(sizeof(float));
}

/// Tensor cores take 16 bytes at once: arrays with other alignments use `simt`, which accepts any.
bool use_mma(Stream& stream, const AttentionShape& s, DType dtype, AttentionChoice asked,
             std::initializer_list<const void*> arrays) {
  const CudaDevice& gpu = static_cast<CudaStream&>(stream).cuda();
  if (choice_on(gpu, s, dtype, asked) != AttentionChoice::mma) return false;
  const bool aligned = gpu::attention_aligned(s, arrays);
  require(aligned || asked != AttentionChoice::mma,
          "attention by mma needs arrays at multiples of 16 bytes");
  return aligned;
}

void forward(Stream& stream, const AttentionForward& p) {
  check(p.shape, p.dtype);
  if (p.shape.batch == 0) return;
  use_mma(stream, p.shape, p.dtype, p.choice, {p.qkv, p.y}) ? attention_forward_mma(stream, p)
                                                            : attention_forward_simt(stream, p);
}

void backward(Stream& stream, const AttentionBackward& p) {
  check(p.shape, p.dtype);
  require(p.workspace != nullptr, "attention needs its workspace");
  if (p.shape.batch == 0) return;
  use_mma(stream, p.shape, p.dtype, p.choice, {p.qkv, p.y, p.dy, p.dqkv})
      ? attention_backward_mma(stream, p)
      : attention_backward_simt(stream, p);
}

}  // namespace

const AttentionKernels& cuda_table(const AttentionKernels*) {
  static constexpr AttentionKernels kernels = {forward, backward, forward_workspace_bytes,
                                               backward_workspace_bytes};
  return kernels;
}

}  // namespace trireme
