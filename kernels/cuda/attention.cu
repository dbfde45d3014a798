// Attention of the CUDA table: checks, workspaces, and the choice of kernels.
#include "kernels/cuda/attention.cuh"
#include "kernels/shape_checks.h"

namespace trireme {
namespace {

constexpr Index widest_head = 128;

void check(const AttentionShape& s) {
  check_attention(s);
  require(s.head_dim <= widest_head, "attention on GPUs takes heads of up to ", widest_head,
          " elements, got head_dim ", s.head_dim);
}

Index forward_workspace_bytes(Device&, const AttentionShape& s) {
  check(s);
  return 0;
}

/// dy . y of every (batch, query head, token).
Index backward_workspace_bytes(Device&, const AttentionShape& s) {
  check(s);
  return s.batch * s.query_heads * s.sequence * static_cast<Index>(sizeof(float));
}

void forward(Stream& stream, const AttentionForward& p) {
  check(p.shape);
  if (p.shape.batch > 0) attention_forward_simt(stream, p);
}

void backward(Stream& stream, const AttentionBackward& p) {
  check(p.shape);
  require(p.workspace != nullptr, "attention needs its workspace");
  if (p.shape.batch > 0) attention_backward_simt(stream, p);
}

}  // namespace

const AttentionKernels cuda_attention_kernels = {forward, backward, forward_workspace_bytes,
                                                 backward_workspace_bytes};

}  // namespace trireme
