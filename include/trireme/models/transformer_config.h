// TransformerConfig: everything that describes a GPT-2 or Llama-style transformer, as data. It can
// be checked, counted and printed without building anything. Option names are Megatron-LM's.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trireme/core/dtype.h"
#include "trireme/nn/attention.h"
#include "trireme/nn/parallel.h"
#include "trireme/nn/rotary.h"

namespace trireme {

enum class Normalization { layer_norm, rms_norm };
enum class MlpKind { gelu_tanh, gelu_erf, swiglu };
enum class PositionKind { learned, rotary };
/// What backward recomputes instead of keeping. selective: norms and activations, which are large
/// and cheap (attention keeps no score matrix in any case). full: everything in a block but its
/// input.
enum class RecomputeGranularity { none, selective, full };

const char* name(Normalization kind);
const char* name(MlpKind kind);
const char* name(PositionKind kind);
const char* name(RecomputeGranularity granularity);

struct TransformerConfig {
  Index num_layers = 4;
  Index hidden_size = 128;
  Index ffn_hidden_size = 0;  // 0: 4 * hidden_size
  Index num_attention_heads = 4;
  Index num_query_groups = 0;  // key-value heads; 0: one for each query head
  Index kv_channels = 0;       // channels of a head; 0: hidden_size / num_attention_heads
  Index vocab_size = 256;
  Index seq_length = 128;
  Index max_position_embeddings = 0;  // rows of the learned position table; 0: seq_length

  Normalization normalization = Normalization::layer_norm;
  float norm_epsilon = 1e-5f;
  MlpKind mlp = MlpKind::gelu_tanh;
  PositionKind position = PositionKind::learned;
  float rotary_base = 10000;
  RotaryScaling rotary_scaling = {};
  bool add_bias_linear = true;
  // Where add_bias_linear is false:
  bool add_qkv_bias = false;        // biases of queries, keys and values all the same
  bool add_attention_bias = false;  // those, and that of attention's output
  bool qk_layernorm = false;   // a norm of each head of queries and keys, before positions enter
  bool tie_embeddings = true;  // the output layer is the token table

  float hidden_dropout = 0;  // after the embedding, attention and the MLP
  float init_std = 0.02f;    // the projections onto the residual stream: / sqrt(2 * num_layers)

  RecomputeGranularity recompute = RecomputeGranularity::none;
  SequenceParallel sequence_parallel = SequenceParallel::off;
  AttentionChoice attention_kernels = AttentionChoice::automatic;
  Index lm_head_chunks = 1;  // slices of a micro-batch's rows; one slice's logits exist at a time

  // With the zeros above filled in.
  Index ffn() const { return ffn_hidden_size > 0 ? ffn_hidden_size : 4 * hidden_size; }
  Index kv_heads() const { return num_query_groups > 0 ? num_query_groups : num_attention_heads; }
  Index positions() const {
    return max_position_embeddings > 0 ? max_position_embeddings : seq_length;
  }
  Index head_dim() const {
    return kv_channels > 0 ? kv_channels : hidden_size / num_attention_heads;
  }
  /// Channels of all query heads.
  Index attention_width() const { return num_attention_heads * head_dim(); }

  /// Number of elements in all parameters, without vocabulary padding.
  Index parameter_count() const;
  /// Forward and backward of one token, by convention: 6 * parameters + 6 * layers *
  /// attention_width * seq_length. Of attention the half that the causal mask leaves counts, which
  /// is half of the 12 of Chowdhery et al. 2022 (arXiv:2204.02311, appendix B).
  double flops_per_token() const;
  /// One line for people.
  std::string describe() const;
  /// The options, with their values, that determine the parameters and the function computed from
  /// them. A checkpoint stores them and is loaded only if they are equal.
  std::vector<std::pair<std::string, std::string>> identity() const;
};

/// "tiny", "gpt2-124m", "llama-3.1-8b", "qwen3-0.6b", ...: shapes of published models.
std::vector<std::string> preset_names();
/// Throws: Error that lists the names when `name` is not one of them.
TransformerConfig preset(std::string_view name);

/// The names by which messages call the fields of TransformerConfig and RotaryScaling, and the
/// sizes given with them: options of train_gpt, unless a reader of another format has its own.
struct TransformerNames {
  const char* num_layers = "--num-layers";
  const char* hidden_size = "--hidden-size";
  const char* ffn_hidden_size = "--ffn-hidden-size";
  const char* num_attention_heads = "--num-attention-heads";
  const char* num_query_groups = "--num-query-groups";
  const char* kv_channels = "--kv-channels";
  const char* vocab_size = "--vocab-size";
  const char* seq_length = "--seq-length";
  const char* max_position_embeddings = "--max-position-embeddings";
  const char* normalization = "--normalization";
  const char* norm_epsilon = "--norm-epsilon";
  const char* mlp = "--activation";
  const char* position = "--position-embedding-type";
  const char* init_std = "--init-method-std";
  const char* hidden_dropout = "--hidden-dropout";
  const char* rotary_base = "--rotary-base";
  const char* kind = "--rope-type";
  const char* factor = "--rope-scaling-factor";
  const char* original_positions = "--rope-original-positions";
  const char* low_frequency_factor = "--rope-low-freq-factor";
  const char* high_frequency_factor = "--rope-high-freq-factor";
  const char* beta_fast = "--yarn-beta-fast";
  const char* beta_slow = "--yarn-beta-slow";
  const char* attention_factor = "--yarn-attention-factor";
  const char* sequence_parallel = "--sequence-parallel";
  const char* lm_head_chunks = "--lm-head-chunks";
  const char* micro_batch_size = "--micro-batch-size";
  const char* tensor_size = "--tensor-model-parallel-size";
};

/// Everything that is wrong with `config` for this tensor parallel size and micro-batch (samples):
/// one sentence each, with the field's name, its value and the nearest legal values. Empty: it can
/// be built.
std::vector<std::string> problems_of(const TransformerConfig& config, Index tensor_size,
                                     Index micro_batch_size, const TransformerNames& names = {});

}  // namespace trireme
