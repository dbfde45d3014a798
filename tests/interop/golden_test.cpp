// The models of Hugging Face's families against what transformers computed: loss, logits and all
// gradients. TRIREME_GOLDEN: a directory of more cases (tests/interop/parity).
#include "trireme/models/transformer.h"

#include "runtime/interop/hf_config.h"
#include "tests/interop/golden_cases.h"
#include "tests/nn/run_graph.h"

namespace trireme::interop {
namespace {

using namespace test;

class Golden : public testing::TestWithParam<std::string> {
 protected:
  Golden() {
    std::vector<std::string> problems;
    config_ = parse_hf_config(golden_.config(), problems).model;
    EXPECT_TRUE(problems.empty()) << problems.front();
    config_.seq_length = golden_sequence;
  }

  RunOptions options(int tensor_size) {
    const auto input = [](std::int32_t* values) {
      return Tensor(values, {golden_batch, golden_sequence}, DType::i32);
    };
    RunOptions options{
        .tensor_size = tensor_size,
        .inputs = {{"tokens", input(tokens_.data())}, {"targets", input(tokens_.data() + 1)}}};
    options.initial = [](const ParameterPart& part, Index i) {
      return golden_weight(part.name, part.global.dims(), i);
    };
    return options;
  }

  const GoldenCase golden_{GetParam()};
  TransformerConfig config_;
  std::vector<std::int32_t> tokens_ = golden_tokens();
};
INSTANTIATE_TEST_SUITE_P(Families, Golden, testing::ValuesIn(golden_cases()), name_of_case);

TEST_P(Golden, LogitsAreThoseOfTransformers) {
  for (const int ranks : {1, 2}) {
    if (config_.kv_heads() % ranks != 0) continue;
    RunOptions forward = options(ranks);
    forward.plan.mode = PlanOptions::Mode::forward_only;
    const GraphRun run = run_graph(
        [&](Graph& g) { return build_transformer_logits(g, config_, golden_batch); }, forward);
    golden_.expect_logits(fmt::format("tensor {}", ranks), run.result);
  }
}

TEST_P(Golden, LossAndGradientsAreThoseOfTransformers) {
  for (const int ranks : {1, 2}) {
    if (config_.kv_heads() % ranks != 0) continue;
    const GraphRun run = run_graph(
        [&](Graph& g) { return build_transformer_loss(g, config_, golden_batch); }, options(ranks));
    golden_.expect_training(fmt::format("tensor {}", ranks), run.loss, run.gradients, 1);
  }
}

}  // namespace
}  // namespace trireme::interop
