// Causal attention with grouped queries, blocked: no sequence x sequence matrix is ever stored.
// Dao et al. 2022 (arXiv:2205.14135), Dao 2023 (arXiv:2307.08691); grouped queries: Ainslie et al.
// 2023 (arXiv:2305.13245).
#pragma once

#include "trireme/core/device.h"
#include "trireme/core/dtype.h"
#include "trireme/kernels/attention_choice.h"
#include "trireme/kernels/write.h"

namespace trireme {

/// Packed layout: a row of `qkv` is one token: query heads, then key heads, then value heads,
/// head_dim each: (batch * sequence, (query_heads + 2 * kv_heads) * head_dim). Scale is 1 /
/// sqrt(head_dim).
struct AttentionShape {
  Index batch, sequence, query_heads, kv_heads, head_dim;
};

/// Activations (qkv, y and their gradients) are fp32 or bf16, `dtype`; sums are fp32.
struct AttentionForward {
  AttentionShape shape;
  const void* qkv;
  void* y;           // (batch * sequence, query_heads * head_dim)
  float* logsumexp;  // (batch, query_heads, sequence)
  void* workspace;
  DType dtype = DType::f32;
  AttentionChoice choice = AttentionChoice::automatic;
};
struct AttentionBackward {
  AttentionShape shape;
  const void* qkv;
  const void* y;
  const float* logsumexp;
  const void* dy;
  void* dqkv;  // (batch * sequence, (query_heads + 2 * kv_heads) * head_dim)
  Write write = Write::assign;
  void* workspace;
  DType dtype = DType::f32;
  AttentionChoice choice = AttentionChoice::automatic;
};

struct AttentionKernels {
  void (*forward)(Stream&, const AttentionForward&);
  void (*backward)(Stream&, const AttentionBackward&);
};

/// Bytes of `workspace` for a call with this choice. Throws: Error that says why the device cannot
/// compute it, or that this machine has no vector code for such a CPU.
Index attention_forward_workspace_bytes(const DeviceTraits&, const AttentionShape&, DType,
                                        AttentionChoice);
Index attention_backward_workspace_bytes(const DeviceTraits&, const AttentionShape&, DType,
                                         AttentionChoice);

}  // namespace trireme
