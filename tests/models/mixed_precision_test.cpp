// Transformers that compute in bf16: near f32 in every gradient, the same bits recomputed, and half
// the memory.
#include <gtest/gtest.h>

#include "trireme/models/transformer.h"

#include "tests/nn/compare_runs.h"
#include "tests/nn/reference.h"

namespace trireme {
namespace {

constexpr Index batch = 2, sequence = 32;

TransformerConfig small(const char* name) {
  TransformerConfig c = preset(name);
  c.num_layers = 4;
  c.hidden_size = 128;
  c.ffn_hidden_size = 256;
  c.num_attention_heads = 4;
  c.num_query_groups = c.mlp == MlpKind::swiglu ? 2 : 4;
  c.vocab_size = 250;
  c.init_std = 0.1f;  // attention that is not almost uniform, whose gradients would be almost zero
  c.seq_length = c.max_position_embeddings = sequence;
  return c;
}

GraphRun run(const TransformerConfig& config, DType compute) {
  std::vector<std::int32_t> tokens = random_tokens("tokens", batch * sequence, 250),
                            targets = random_tokens("targets", batch * sequence, 250);
  return run_graph([&](Graph& g) { return build_transformer_loss(g, config, batch); },
                   {.inputs = {{"tokens", tensor_of(tokens, {batch, sequence})},
                               {"targets", tensor_of(targets, {batch, sequence})}},
                    .compute = compute,
                    .parameters = DType::bf16});
}

class MixedTransformer : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Presets, MixedTransformer, testing::Values("gpt2-124m", "llama-1b"));

// A gradient is the end of a chain of some 20 roundings a block there and back, each off by at most
// 2^-8 (on average by less than half of that) and of either sign: sqrt(80) * 2^-9 = 1.7 %.
TEST_P(MixedTransformer, GradientsAreNearThoseOfF32) {
  GraphRun wide = run(small(GetParam()), DType::f32), half = run(small(GetParam()), DType::bf16);
  for (GraphRun* r : {&wide, &half})  // without influence: rounding is all that there is of them
    std::erase_if(r->gradients, [](const auto& entry) {
      return entry.first.find("attention.key.bias") != std::string::npos;
    });
  const Difference d = difference(half, wide);
  EXPECT_LT(d.loss, 1e-3);
  EXPECT_LT(d.gradients, 0.03) << d.worst;
  EXPECT_GT(d.gradients, 1e-4);
}

TEST_P(MixedTransformer, RecomputationGivesTheSameBits) {
  TransformerConfig config = small(GetParam());
  config.hidden_dropout = 0.1f;
  const GraphRun kept = run(config, DType::bf16);
  for (const auto recompute : {RecomputeGranularity::selective, RecomputeGranularity::full}) {
    config.recompute = recompute;
    const GraphRun again = run(config, DType::bf16);
    EXPECT_EQ(again.loss, kept.loss);
    EXPECT_EQ(again.gradients, kept.gradients);
  }
}

TEST_P(MixedTransformer, ActivationsTakeHalfTheMemory) {
  const auto bytes = [](DType compute) {
    Graph g(0, 1, compute);
    const Value loss = build_transformer_loss(g, small(GetParam()), batch);
    return Plan(g, {loss}, cut_stages(g, {loss}, 1), 0).bytes();
  };
  const PlanBytes wide = bytes(DType::f32), half = bytes(DType::bf16);
  EXPECT_EQ(2 * half.parameters, wide.parameters);
  // Tokens, statistics of rows and the loss stay as they are: a few numbers a row beside hundreds.
  EXPECT_LT(half.slot, 0.53 * static_cast<double>(wide.slot));
  EXPECT_GT(half.slot, 0.5 * static_cast<double>(wide.slot));
}

}  // namespace
}  // namespace trireme
