// The whole transformer: every tensor-parallel layout and recomputation agrees with one rank, in
// loss and every gradient.
#include "trireme/models/transformer.h"

#include <gtest/gtest.h>

#include "trireme/core/named_values.h"

#include "tests/models/plain_transformer.h"
#include "tests/nn/compare_runs.h"
#include "tests/nn/reference.h"

namespace trireme {
namespace {

constexpr Index batch = 2, sequence = 12, vocabulary = 29;

TransformerConfig small_gpt() {
  TransformerConfig c;
  c.num_layers = 2;
  c.hidden_size = 48;
  c.num_attention_heads = 4;
  c.vocab_size = vocabulary;
  c.seq_length = sequence;
  c.max_position_embeddings = 16;
  c.init_std = 0.2f;
  return c;
}
TransformerConfig small_llama() {
  TransformerConfig c = small_gpt();
  c.num_attention_heads = 8;
  c.num_query_groups = 4;
  c.ffn_hidden_size = 72;
  c.normalization = Normalization::rms_norm;
  c.mlp = MlpKind::swiglu;
  c.position = PositionKind::rotary;
  c.add_bias_linear = false;
  c.tie_embeddings = false;
  return c;
}

/// As Qwen2: a bias on queries, keys and values only.
TransformerConfig small_qwen2() {
  TransformerConfig c = small_llama();
  c.add_qkv_bias = true;
  return c;
}
/// Qwen3 with attention_bias: norms of queries and keys, and heads that are wider than width /
/// heads.
TransformerConfig small_qwen3() {
  TransformerConfig c = small_llama();
  c.kv_channels = 10;
  c.qk_layernorm = true;
  c.add_attention_bias = true;
  return c;
}
TransformerConfig with_scaling(TransformerConfig c, RotaryScalingKind kind) {
  c.kv_channels = 32;  // pairs on both sides of the ramp, and in it
  c.rotary_base = 100;
  c.rotary_scaling.kind = kind;
  c.rotary_scaling.factor = 4;
  c.rotary_scaling.original_positions = 64;
  c.rotary_scaling.beta_fast = 5;
  return c;
}
/// What the first releases did not have.
std::vector<TransformerConfig> later_configs() {
  TransformerConfig gpt = small_gpt();  // LayerNorm of heads, biases everywhere
  gpt.qk_layernorm = true;
  gpt.kv_channels = 7;
  std::vector<TransformerConfig> all = {small_qwen2(), small_qwen3(), gpt};
  for (const auto& [name, kind] : named_values<RotaryScalingKind>())
    all.push_back(with_scaling(small_llama(), kind));
  return all;
}

struct Layout {
  int tensor_size = 1;
  SequenceParallel sequence = SequenceParallel::off;
  RecomputeGranularity recompute = RecomputeGranularity::none;
  int threads = 1;
};

GraphRun run(TransformerConfig config, Layout layout) {
  std::vector<std::int32_t> tokens = random_tokens("tokens", batch * sequence, vocabulary),
                            targets = random_tokens("targets", batch * sequence, vocabulary);
  targets[5] = -100;
  config.sequence_parallel = layout.sequence;
  config.recompute = layout.recompute;
  RunOptions options{.tensor_size = layout.tensor_size,
                     .inputs = {{"tokens", tensor_of(tokens, {batch, sequence})},
                                {"targets", tensor_of(targets, {batch, sequence})}},
                     .threads = layout.threads};
  return run_graph([&](Graph& g) { return build_transformer_loss(g, config, batch); }, options);
}

std::map<std::string, std::vector<double>> initial_parameters(const TransformerConfig& config) {
  Graph g;
  build_transformer_loss(g, config, batch);
  std::map<std::string, std::vector<double>> values;
  for (const Parameter& p : g.parameters())
    for (const ParameterPart& part : p.parts)
      for (Index i = 0; i < part.global.count(); ++i)
        values[part.name].push_back(run_graph_detail::initial_value(part, i));
  return values;
}

TEST(Transformer, MatchesThePlainModel) {
  TransformerConfig erf = small_gpt();
  erf.mlp = MlpKind::gelu_erf;
  const std::vector<std::int32_t> tokens = random_tokens("tokens", batch * sequence, vocabulary);
  std::vector<std::int32_t> targets = random_tokens("targets", batch * sequence, vocabulary);
  targets[5] = -100;
  std::vector<TransformerConfig> configs = later_configs();
  configs.insert(configs.end(), {small_gpt(), small_llama(), erf});
  for (const TransformerConfig& config : configs) {
    const PlainTransformer plain(config, initial_parameters(config));
    double loss = 0;
    for (Index b = 0; b < batch; ++b)
      loss += plain.loss(tokens.data() + b * sequence, targets.data() + b * sequence);
    EXPECT_NEAR(run(config, {}).loss, loss, 1e-6 * loss) << config.describe();
  }
}

TEST(Transformer, ProjectionsOntoTheResidualStreamStartSmaller) {
  Graph g;
  build_transformer_loss(g, small_gpt(), batch);
  for (const Parameter& p : g.parameters())
    for (const ParameterPart& part : p.parts) {
      const bool weight = part.global.dims() == 2;
      const bool residual = part.name.find("output.weight") != std::string::npos ||
                            part.name.find("down.weight") != std::string::npos;
      if (!weight) continue;
      EXPECT_FLOAT_EQ(part.init.scale, residual ? 0.2f / 2 : 0.2f) << part.name;
    }
}

/// Key biases have no influence on the softmax unless positions turn them: their true gradient is
/// zero, and what is left is rounding.
GraphRun without_key_biases(GraphRun r) {
  std::erase_if(r.gradients, [](const auto& entry) {
    return entry.first.find("attention.key.bias") != std::string::npos ||
           entry.first.find("attention.key_norm.bias") != std::string::npos;
  });
  return r;
}

void expect_every_layout_agrees(TransformerConfig config) {
  const auto run_on = [&](const Layout& layout) {
    return config.position == PositionKind::rotary ? run(config, layout)
                                                   : without_key_biases(run(config, layout));
  };
  const GraphRun one = run_on({});
  EXPECT_GT(one.gradients.size(), 15u);
  for (const auto& [name, gradient] : one.gradients) {
    double size = 0;
    for (const float g : gradient) size += double(g) * g;
    EXPECT_GT(size, 0) << name;  // nothing is left out
  }
  for (const int ranks : {1, 2, 4})
    for (const SequenceParallel parallel : {SequenceParallel::off, SequenceParallel::on}) {
      const Difference d = difference(run_on({ranks, parallel}), one);
      EXPECT_LT(d.loss, 2e-7) << ranks << " ranks";
      EXPECT_LT(d.gradients, 5e-6) << ranks << " ranks " << d.worst;
    }
}

TEST(Transformer, GptAgreesOnEveryTensorLayout) { expect_every_layout_agrees(small_gpt()); }
TEST(Transformer, LlamaAgreesOnEveryTensorLayout) { expect_every_layout_agrees(small_llama()); }
TEST(Transformer, EveryOptionAgreesOnEveryTensorLayout) {
  for (const TransformerConfig& config : later_configs()) {
    SCOPED_TRACE(config.describe());
    expect_every_layout_agrees(config);
  }
}
TEST(Transformer, DropoutAgreesOnEveryTensorLayout) {
  TransformerConfig c = small_gpt();
  c.hidden_dropout = 0.2f;
  EXPECT_NE(run(c, {}).loss, run(small_gpt(), {}).loss);
  expect_every_layout_agrees(c);
}

TEST(Transformer, AHeadInPiecesAgreesOnEveryTensorLayout) {
  for (TransformerConfig c : {small_gpt(), small_llama()}) {
    const GraphRun whole = without_key_biases(run(c, {}));
    c.lm_head_chunks = 7;  // of 24 rows: 6 pieces of 4
    const Difference d = difference(without_key_biases(run(c, {})), whole);
    EXPECT_LT(d.loss, 1e-7);
    EXPECT_LT(d.gradients, 2e-6) << d.worst;
    c.lm_head_chunks = 5;  // 5, 5, 5, 5, 4
    expect_every_layout_agrees(c);
  }
}

TEST(Transformer, OfTheLogitsOnlyAPieceIsPlanned) {
  TransformerConfig config = small_gpt();
  config.vocab_size = 16384;
  config.lm_head_chunks = 6;
  Graph g;
  const Value loss = build_transformer_loss(g, config, batch);
  for (const auto mode : {PlanOptions::Mode::training, PlanOptions::Mode::forward_only}) {
    const Plan plan(g, {loss}, cut_stages(g, {loss}, 1), 0, {.mode = mode});
    const Index logits = batch * sequence * config.vocab_size * size_bytes(DType::f32);
    EXPECT_EQ(plan.result_in_backward(), mode == PlanOptions::Mode::training);
    EXPECT_LT(plan.bytes().slot, logits);
    for (const Instance& i : plan.instances()) EXPECT_LT(i.bytes, logits / 6 + 4096) << i.name;
  }
}

TEST(Transformer, RecomputationGivesTheSameBits) {
  for (TransformerConfig config : {small_gpt(), small_llama(), small_qwen3()})
    for (const int ranks : {1, 2}) {
      config.hidden_dropout = 0.1f;
      const GraphRun kept = run(config, {ranks, SequenceParallel::on});
      for (const RecomputeGranularity recompute :
           {RecomputeGranularity::selective, RecomputeGranularity::full}) {
        const GraphRun again = run(config, {ranks, SequenceParallel::on, recompute});
        EXPECT_EQ(again.loss, kept.loss) << name(recompute);
        EXPECT_LT(difference(without_key_biases(again), without_key_biases(kept)).gradients, 1e-7)
            << name(recompute);
      }
    }
}

TEST(Transformer, RecomputationKeepsLess) {
  Index bytes[3];
  int i = 0;
  for (const RecomputeGranularity recompute :
       {RecomputeGranularity::none, RecomputeGranularity::selective, RecomputeGranularity::full}) {
    TransformerConfig config = small_gpt();
    config.recompute = recompute;
    Graph g;
    const Value loss = build_transformer_loss(g, config, batch);
    bytes[i++] = Plan(g, {loss}, cut_stages(g, {loss}, 1), 0).bytes().slot;
  }
  EXPECT_LT(bytes[1], bytes[0] * 3 / 4);
  EXPECT_LT(bytes[2], bytes[1] / 2);
}

TEST(Transformer, ThreadsGiveTheSameLoss) {
  const GraphRun one = run(small_llama(), {}), three = run(small_llama(), {.threads = 3});
  EXPECT_LT(difference(three, one).loss, 1e-7);
  EXPECT_LT(difference(three, one).gradients, 1e-6);
}

TEST(Transformer, LogitsOfEveryRankGiveTheLoss) {
  std::vector<std::int32_t> tokens = random_tokens("tokens", batch * sequence, vocabulary),
                            targets = random_tokens("targets", batch * sequence, vocabulary);
  targets[5] = -100;
  for (const int ranks : {1, 2, 4}) {
    RunOptions options{.tensor_size = ranks,
                       .inputs = {{"tokens", tensor_of(tokens, {batch, sequence})}}};
    options.plan.mode = PlanOptions::Mode::forward_only;
    const std::vector<float> logits =
        run_graph([&](Graph& g) { return build_transformer_logits(g, small_gpt(), batch); },
                  options)
            .result;
    ASSERT_EQ(logits.size(), std::size_t(batch * sequence * vocabulary));
    double loss = 0;
    for (Index r = 0; r < batch * sequence; ++r) {
      double sum = 0;
      for (Index c = 0; c < vocabulary; ++c)
        sum += std::exp(double(logits[std::size_t(r * vocabulary + c)]));
      const std::int32_t target = targets[std::size_t(r)];
      if (target >= 0) loss += std::log(sum) - logits[std::size_t(r * vocabulary + target)];
    }
    EXPECT_NEAR(run(small_gpt(), {}).loss, loss, 1e-6 * loss) << ranks;
  }
}

TEST(Transformer, ParametersAddUpToTheCount) {
  std::vector<TransformerConfig> configs = later_configs();
  configs.insert(configs.end(), {small_gpt(), small_llama()});
  for (const std::string& name : preset_names()) configs.push_back(preset(name));
  for (const TransformerConfig& config : configs) {
    Graph g;
    build_transformer_loss(g, config, 1);
    Index count = 0;
    for (const Parameter& p : g.parameters())
      for (const ParameterPart& part : p.parts) count += part.global.count();
    EXPECT_EQ(count, config.parameter_count());
  }
}

std::vector<std::string> names_of_block(const TransformerConfig& config) {
  Graph g;
  build_transformer_loss(g, config, batch);
  const std::string block = "block.1.";
  std::vector<std::string> names;
  for (const Parameter& p : g.parameters())
    for (const ParameterPart& part : p.parts)
      if (part.name.starts_with(block)) names.push_back(part.name.substr(block.size()));
  return names;
}

TEST(Transformer, ParametersHaveTheirDocumentedNames) {
  EXPECT_EQ(names_of_block(small_llama()),
            (std::vector<std::string>{"attention_norm.weight", "attention.query.weight",
                                      "attention.key.weight", "attention.value.weight",
                                      "attention.output.weight", "mlp_norm.weight",
                                      "mlp.gate.weight", "mlp.up.weight", "mlp.down.weight"}));
  EXPECT_EQ(names_of_block(small_qwen2()),
            (std::vector<std::string>{
                "attention_norm.weight", "attention.query.weight", "attention.key.weight",
                "attention.value.weight", "attention.query.bias", "attention.key.bias",
                "attention.value.bias", "attention.output.weight", "mlp_norm.weight",
                "mlp.gate.weight", "mlp.up.weight", "mlp.down.weight"}));
  EXPECT_EQ(names_of_block(small_qwen3()),
            (std::vector<std::string>{
                "attention_norm.weight", "attention.query.weight", "attention.key.weight",
                "attention.value.weight", "attention.query.bias", "attention.key.bias",
                "attention.value.bias", "attention.query_norm.weight", "attention.key_norm.weight",
                "attention.output.weight", "attention.output.bias", "mlp_norm.weight",
                "mlp.gate.weight", "mlp.up.weight", "mlp.down.weight"}));
}

TEST(Transformer, BadConfigurationsAreRejectedWithEveryProblem) {
  Graph g(0, 3);
  TransformerConfig c = small_gpt();
  c.hidden_size = 49;
  try {
    build_transformer_loss(g, c, batch);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("--hidden-size 49"), std::string::npos);
    EXPECT_NE(std::string(error.what()).find("--num-attention-heads 4"), std::string::npos);
  }
}

}  // namespace
}  // namespace trireme
