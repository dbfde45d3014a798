// Causal self-attention with grouped queries. No (sequence, sequence) matrix is ever stored:
// kernels/attention.h.
#pragma once

#include "trireme/graph/graph.h"
#include "trireme/kernels/attention_choice.h"

namespace trireme {

/// Head counts are those of this rank. kv_heads divides query_heads; query head h reads kv head h *
/// kv / query.
struct AttentionHeads {
  Index query, kv, head_dim;
};

/// softmax(q k^T / sqrt(head_dim)) v, each token over itself and those before it in its sample.
/// qkv: (batch * sequence, (query + 2 kv) * head_dim); a row holds all query heads, then keys, then
/// values. Returns (batch * sequence, query * head_dim). `choice`: of kernels, on a GPU.
Value causal_attention(Value qkv, Index sequence, const AttentionHeads& heads,
                       AttentionChoice choice = AttentionChoice::automatic);

}  // namespace trireme
