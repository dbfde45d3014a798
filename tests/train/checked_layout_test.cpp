// What --check-layout says of a layout without its ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/models/transformer.h"

#include "tests/train/unequal_ranks.h"

namespace trireme {
namespace {

// That rank has some KiB more than the first one here.
TEST(CheckedLayout, HasTheMemoryOfTheLargestTensorRank) {
  TransformerConfig config{.num_layers = 5, .hidden_size = 320, .num_query_groups = 2};
  config.seq_length = 64;
  config.normalization = Normalization::rms_norm;
  config.mlp = MlpKind::swiglu;
  config.position = PositionKind::rotary;
  config.add_bias_linear = config.tie_embeddings = false;
  config.sequence_parallel = SequenceParallel::on;
  const Model model([=](Graph& g) { return build_transformer_loss(g, config, 1); });
  const Layout layout{.tensor = 2};
  Options options = options_for(layout);
  options.bucket_size = Options().bucket_size;
  const LayoutChecked planned = checked_layout(layout, options, model, true);
  EXPECT_THAT(planned.description, testing::HasSubstr("tightest rank: 1 "));
  EXPECT_EQ(checked_layout(layout, options, model, false).rank_bytes, planned.rank_bytes);
}

}  // namespace
}  // namespace trireme
