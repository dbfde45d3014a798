// Decoder-only transformers from one config: GPT-2 style (learned positions, LayerNorm, GELU,
// biases, tied embeddings) and Llama style (RMSNorm, rotary positions, SwiGLU, grouped queries, no
// biases), pre-norm both.
//
// Logical names of the parameters, and what Hugging Face calls the same tensors (linear weights are
// (out, in) here; GPT-2's files hold them transposed, with queries, keys and values in one c_attn):
//
//   trireme                          GPT-2                      Llama
//   embedding.weight                 wte                        model.embed_tokens
//   position.weight                  wpe                        -
//   of layer i: block.i.             h.i.                       model.layers.i.
//     attention_norm.{weight,bias}     ln_1                       input_layernorm
//     attention.query.{weight,bias}    attn.c_attn, first part    self_attn.q_proj
//     attention.key.{weight,bias}      attn.c_attn, second part   self_attn.k_proj
//     attention.value.{weight,bias}    attn.c_attn, third part    self_attn.v_proj
//     attention.query_norm.weight    -                            self_attn.q_norm (Qwen3)
//     attention.key_norm.weight      -                            self_attn.k_norm (Qwen3)
//     attention.output.{weight,bias}   attn.c_proj                self_attn.o_proj
//     mlp_norm.{weight,bias}           ln_2                       post_attention_layernorm
//     mlp.gate.{weight,bias}         -                            mlp.gate_proj
//     mlp.up.{weight,bias}             mlp.c_fc                   mlp.up_proj
//     mlp.down.{weight,bias}           mlp.c_proj                 mlp.down_proj
//   after the layers:
//   norm.{weight,bias}               ln_f                       model.norm
//   head.weight                      - (tied)                   lm_head
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
