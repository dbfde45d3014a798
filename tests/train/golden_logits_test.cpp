// Logits of models that begin with weights of Hugging Face, in each layout, against those of
// transformers. Loss and gradients: tests/interop, integration_hugging_face.
#include <algorithm>

#include "trireme/models/transformer.h"

#include "tests/interop/golden_model.h"
#include "tests/train/sines.h"

namespace trireme {
namespace {

using test::golden_batch;
using test::golden_sequence;
using test::GoldenModel;

/// Samples of `golden_sequence` tokens, and the tokens after them.
class GoldenTokens final : public DataSource {
 public:
  Index fill(Index sample, std::span<const Tensor> out) override {
    for (std::size_t k = 0; k < out.size(); ++k)
      if (out[k].data != nullptr)
        std::copy_n(tokens_.begin() + sample * golden_sequence + static_cast<Index>(k),
                    golden_sequence, out[k].as<std::int32_t>());
    return golden_sequence;
  }

 private:
  const std::vector<std::int32_t> tokens_ = test::golden_tokens();
};

class GoldenLogits : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Families, GoldenLogits, testing::ValuesIn(test::golden_cases()),
                         test::name_of_case);

TEST_P(GoldenLogits, AreThoseOfTransformersInEveryLayout) {
  const GoldenModel model(GetParam());
  TransformerConfig config = model.config().model;
  config.seq_length = golden_sequence;
  const Layout layouts[] = {{.micro_batch = 4},
                            {.pipeline = 2, .tensor = 2, .micro_batch = 2},
                            {.data = 2, .zero = true}};
  for (const Layout& layout : layouts) {
    // Random cases, not those of the tree.
    const bool odd = config.kv_heads() % 2 != 0 || config.num_layers % 2 != 0;
    if (odd && layout.tensor > 1) continue;
    Options options = options_for(layout);
    options.checkpoint.load_hf = model.path();
    std::vector<float> logits;
    on_ranks(layout, options, [&](Context& context) {
      Model asked([&](Graph& g) { return build_transformer_loss(g, config, layout.micro_batch); });
      asked.result = [&](Graph& g) {
        return reshape(build_transformer_logits(g, config, layout.micro_batch),
                       {layout.micro_batch, golden_sequence, config.vocab_size});
      };
      Trainer trainer(context, asked);
      GoldenTokens tokens;
      trainer.outputs(tokens, golden_batch, [&](Index, const Tensor& sample) {
        logits.insert(logits.end(), sample.as<float>(), sample.as<float>() + sample.count());
      });
    });
    model.golden().expect_logits(testing::PrintToString(layout), logits);
  }
}

}  // namespace
}  // namespace trireme
