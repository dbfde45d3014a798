// Decoder-only transformers from one config: GPT-2 style (learned positions, LayerNorm, GELU,
// biases, tied embeddings) and Llama style (RMSNorm, rotary positions, SwiGLU, grouped queries, no
// biases), pre-norm both.
//
// Logical names of the parameters, and what Hugging Face calls the same tensors (linear weights are
// (out, in) here; GPT-2's files hold them transposed, with queries, keys and values in one c_attn):
//
//   embedding.weight                         wte                       model.embed_tokens
//   position.weight                          wpe                       -
//   block.i.attention_norm.{weight,bias}     h.i.ln_1 model.layers.i.input_layernorm
//   block.i.attention.query.{weight,bias}    h.i.attn.c_attn [first]
//   model.layers.i.self_attn.q_proj block.i.attention.key.{weight,bias}      h.i.attn.c_attn
//   [second]  model.layers.i.self_attn.k_proj block.i.attention.value.{weight,bias} h.i.attn.c_attn
//   [third]   model.layers.i.self_attn.v_proj block.i.attention.output.{weight,bias}
//   h.i.attn.c_proj           model.layers.i.self_attn.o_proj block.i.mlp_norm.{weight,bias}
//   h.i.ln_2                  model.layers.i.post_attention_layernorm
//   block.i.mlp.gate.{weight,bias}           -                         model.layers.i.mlp.gate_proj
//   block.i.mlp.up.{weight,bias}             h.i.mlp.c_fc              model.layers.i.mlp.up_proj
//   block.i.mlp.down.{weight,bias}           h.i.mlp.c_proj            model.layers.i.mlp.down_proj
//   norm.{weight,bias}                       ln_f                      model.norm
//   head.weight                              - (tied)                  lm_head
#pragma once

#include "trireme/graph/graph.h"
#include "trireme/models/transformer_config.h"

namespace trireme {

/// The summed loss of `micro_batch` samples. Graph inputs: "tokens" and "targets", i32
/// (micro_batch, seq_length); targets below zero are ignored. Throws: Error with all problems_of()
/// the config.
Value build_transformer_loss(Graph& graph, const TransformerConfig& config, Index micro_batch);

/// Logits of all positions, (micro_batch * seq_length, vocab_size), for generation: no dropout, no
/// recomputation. Graph input: "tokens". Every tensor rank gets all columns, on the last stage.
Value build_transformer_logits(Graph& graph, const TransformerConfig& config, Index micro_batch);

}  // namespace trireme
