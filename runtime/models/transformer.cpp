// The forward pass of the transformer, as ordinary code on Values; everything else is derived from
// its trace.
#include "trireme/models/transformer.h"

#include <cmath>

#include "trireme/nn/nn.h"

#include "runtime/models/kinds.h"

namespace trireme {
namespace {

/// What the last layer multiplies.
struct Head {
  Value x, weight;
};

/// What the parts of one model share while it is traced.
struct Build {
  Graph& g;
  TransformerConfig config;
  RotaryTablePtr rotary;

  LinearOptions linear_options() const {
    return {config.add_bias_linear ? Bias::zeros : Bias::none, normal(config.init_std),
            config.sequence_parallel};
  }
  /// For projections onto the residual stream, whose sum over 2 * layers keeps its size so (Radford
  /// et al. 2019).
  LinearOptions residual_options() const {
    LinearOptions options = linear_options();
    options.init.scale /= std::sqrt(2.0f * static_cast<float>(config.num_layers));
    return options;
  }
  Value drop(Value x) const { return dropout(x, config.hidden_dropout, config.seq_length); }
  Value norm(Value x, const char* name) const {
    switch (config.normalization) {
      case Normalization::layer_norm:
        return layer_norm(x, name, config.norm_epsilon);
      case Normalization::rms_norm:
        return rms_norm(x, name, config.norm_epsilon);
    }
    throw Error("no such kind of norm");
  }
  SumAndNorm add_norm(Value x, Value delta, const char* name) const {
    switch (config.normalization) {
      case Normalization::layer_norm:
        return add_layer_norm(x, delta, name, config.norm_epsilon);
      case Normalization::rms_norm:
        return add_rms_norm(x, delta, name, config.norm_epsilon);
    }
    throw Error("no such kind of norm");
  }
  bool selective() const { return config.recompute == RecomputeGranularity::selective; }
  /// f, run again before its backward under selective recomputation.
  template <class F>
  Value maybe_again(F&& f) const {
    return selective() ? g.recompute(std::forward<F>(f)) : f();
  }

  /// Of this rank.
  AttentionHeads heads() const {
    const Index ranks = g.tensor_size();
    return {config.num_attention_heads / ranks, config.kv_heads() / ranks, config.head_dim()};
  }

  Value projections(Value normed) const;
  Value norm_heads(Value qkv) const;
  Value attention(Value qkv) const;
  Value mlp(Value normed) const;
  Value mlp_in(Value normed) const;
  Value mlp_out(Value h) const;
  Value block(Value x) const;
  Value embed(Value tokens, Value table) const;
  Head head(Index micro_batch);
};

/// Queries, keys and values of this rank's heads under one GEMM.
Value Build::projections(Value normed) const {
  const Index kv = config.kv_heads() * config.head_dim();
  LinearOptions options = linear_options();
  if (config.add_qkv_bias || config.add_attention_bias) options.bias = Bias::zeros;
  return g.scope("attention", [&] {
    const Value qkv = column_linear(
        normed, {{"query", config.attention_width()}, {"key", kv}, {"value", kv}}, options);
    return config.qk_layernorm ? norm_heads(qkv) : qkv;
  });
}

/// Queries and keys with each head normalised on its own, by weights that the heads share (Dehghani
/// et al. 2023, arXiv:2302.05442).
Value Build::norm_heads(Value qkv) const {
  const auto [query, kv, head_dim] = heads();
  const Index rows = qkv.shape()[0], keys = query * head_dim, values = keys + kv * head_dim;
  const auto normed = [&, d = head_dim](Index begin, Index end, const char* name) {
    const Value part = contiguous(slice(qkv, 1, begin, end));
    const Value heads = reshape(part, {rows * (end - begin) / d, d});
    return reshape(norm(heads, name), {rows, end - begin});
  };
  return concat_columns({normed(0, keys, "query_norm"), normed(keys, values, "key_norm"),
                         slice(qkv, 1, values, qkv.shape()[1])});
}

Value Build::attention(Value qkv) const {
  return g.scope("attention", [&] {
    if (rotary) qkv = trireme::rotary(qkv, rotary, heads().query + heads().kv);
    const Value y = causal_attention(qkv, config.seq_length, heads(), config.attention_kernels);
    LinearOptions options = residual_options();
    if (config.add_attention_bias) options.bias = Bias::zeros;
    return drop(row_linear(y, "output", config.hidden_size, options));
  });
}

Value Build::mlp_in(Value normed) const {
  return g.scope("mlp", [&] {
    if (!is_gated(config.mlp)) return column_linear(normed, "up", config.ffn(), linear_options());
    return column_linear(normed, {{"gate", config.ffn()}, {"up", config.ffn()}}, linear_options());
  });
}

Value Build::mlp_out(Value h) const {
  return g.scope("mlp", [&] {
    // The result of the activation is as large as its input and cheap to make. The layer that reads
    // it is in the same recompute scope; otherwise the result would have to be kept.
    const Value y = maybe_again([&] {
      const auto down = [&](Value a) {
        return row_linear(a, "down", config.hidden_size, residual_options());
      };
      switch (config.mlp) {
        case MlpKind::gelu_tanh:
          return gelu_row_linear(h, "down", config.hidden_size, residual_options());
        case MlpKind::gelu_erf:
          return down(gelu_erf(h));
        case MlpKind::swiglu:
          return down(swiglu(h));
      }
      throw Error("no such kind of MLP");
    });
    return drop(y);
  });
}

/// If the activation is kept, its product can compute it.
Value Build::mlp(Value normed) const {
  if (!is_part_of_product(config.mlp)) return mlp_out(mlp_in(normed));
  return g.scope("mlp", [&] {
    return drop(gelu_mlp(normed, {"up", config.ffn()}, linear_options(),
                         {"down", config.hidden_size}, residual_options()));
  });
}

Value Build::block(Value x) const {
  const Value qkv = maybe_again([&] { return projections(norm(x, "attention_norm")); });
  const Value delta = attention(qkv);
  if (selective()) {  // not fused: running a fused addition again would need `delta` to be kept
    const Value sum = x + delta;
    const Value h = maybe_again([&] { return mlp_in(norm(sum, "mlp_norm")); });
    return sum + mlp_out(h);
  }
  const auto [sum, normed] = add_norm(x, delta, "mlp_norm");
  return sum + mlp(normed);
}

Value Build::embed(Value tokens, Value table) const {
  Value x = embedding(tokens, table, config.sequence_parallel);
  if (is_learned(config.position)) {
    const Value positions = g.parameter("position.weight", {config.positions(), config.hidden_size},
                                        replicated(), normal(config.init_std));
    x = add_positions(x, positions, config.seq_length);
  }
  return drop(x);
}

Head Build::head(Index micro_batch) {
  if (is_rotary(config.position))
    rotary = std::make_shared<const RotaryTable>(
        config.seq_length,
        rotary_frequencies(config.head_dim(), config.rotary_base, config.rotary_scaling),
        rotary_amplitude(config.rotary_scaling));
  const Value tokens = g.input("tokens", Spec({micro_batch, config.seq_length}, DType::i32));
  const Shape table_shape = {config.vocab_size, config.hidden_size};
  const Value table =
      g.parameter("embedding.weight", table_shape, shard_padded(0), normal(config.init_std));

  Value x = embed(tokens, table);
  for (int i = 0; i < config.num_layers; ++i)
    x = g.block("block", i, [&] {
      return config.recompute == RecomputeGranularity::full ? g.recompute([&] { return block(x); })
                                                            : block(x);
    });
  const Value weight =
      config.tie_embeddings
          ? table
          : g.parameter("head.weight", table_shape, shard_padded(0), normal(config.init_std));
  return {enter_region(norm(x, "norm")), weight};
}

void check(const TransformerConfig& config, const Graph& graph, Index micro_batch) {
  std::string all;
  for (const std::string& problem : problems_of(config, graph.tensor_size(), micro_batch))
    all += (all.empty() ? "" : "\n") + problem;
  require(all.empty(), all);
}

}  // namespace

Value build_transformer_loss(Graph& graph, const TransformerConfig& config, Index micro_batch) {
  check(config, graph, micro_batch);
  const auto [x, weight] = Build{graph, config, nullptr}.head(micro_batch);
  const Value targets = graph.input("targets", Spec({micro_batch, config.seq_length}, DType::i32));
  return linear_cross_entropy(x, weight, targets, config.vocab_size, config.lm_head_chunks);
}

Value build_transformer_logits(Graph& graph, const TransformerConfig& config, Index micro_batch) {
  TransformerConfig generation = config;
  generation.hidden_dropout = 0;
  generation.recompute = RecomputeGranularity::none;
  generation.sequence_parallel = SequenceParallel::off;
  check(generation, graph, micro_batch);
  const auto [x, weight] = Build{graph, generation, nullptr}.head(micro_batch);
  return gather_columns(linear(x, weight), config.vocab_size);
}

}  // namespace trireme
