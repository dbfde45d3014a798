// The last layer and its loss in pieces: against the layer and the loss one after the other, finite
// differences, itself on one rank, and what the plan says of its memory.
#include <gtest/gtest.h>

#include "trireme/graph/gradient_check.h"
#include "trireme/kernels/cross_entropy.h"
#include "trireme/nn/collectives.h"
#include "trireme/nn/embedding.h"
#include "trireme/nn/linear.h"
#include "trireme/nn/loss.h"
#include "trireme/nn/norm.h"

#include "tests/nn/compare_runs.h"
#include "tests/nn/reference.h"

namespace trireme {
namespace {

constexpr Index token_rows = 23, hidden_width = 16;

enum class Head { two_ops, one_op };
enum class Weights { tied, own };

/// An embedding's rows, a norm, and the loss of the last layer.
struct Model {
  Index vocabulary = 29, chunks = 1;
  Head head = Head::one_op;
  Weights weights = Weights::own;

  Value operator()(Graph& g) const {
    const Value table =
        g.parameter("table", {vocabulary, hidden_width}, shard_padded(0), normal(1));
    const Value weight = weights == Weights::tied ? table
                                                  : g.parameter("head", {vocabulary, hidden_width},
                                                                shard_padded(0), normal(1));
    const Value targets = g.input("targets", Spec({token_rows}, DType::i32));
    const Value tokens = g.input("tokens", Spec({token_rows}, DType::i32));
    const Value x = enter_region(rms_norm(embedding(tokens, table), "norm"));
    return head == Head::one_op ? linear_cross_entropy(x, weight, targets, vocabulary, chunks)
                                : cross_entropy(linear(x, weight), targets, vocabulary);
  }
};

RunOptions on(int ranks, DType compute = DType::f32) {
  RunOptions options;
  options.tensor_size = ranks;
  options.compute = compute;
  return options;
}

GraphRun run(const Model& model, RunOptions options = {}) {
  std::vector<std::int32_t> tokens = random_tokens("tokens", token_rows, model.vocabulary),
                            targets = random_tokens("targets", token_rows, model.vocabulary);
  targets[3] = targets[20] = ignored_target;
  for (Index r = 6; r < 12; ++r) targets[std::size_t(r)] = -1;  // a whole piece without targets
  options.inputs = {{"tokens", tensor_of(tokens, {token_rows})},
                    {"targets", tensor_of(targets, {token_rows})}};
  return run_graph(model, options);
}

// 1: the same products; 23 rows in pieces of 12 + 11, 8 + 7, 6 + 5, 3 + 2, and single rows; 7
// is met by 6 pieces of 4.
const std::vector<Index> chunk_counts = {1, 2, 3, 4, 7, 8, 23};

TEST(LinearCrossEntropy, OnePieceGivesTheBitsOfTheTwoOps) {
  for (const DType compute : {DType::f32, DType::bf16})
    for (const Weights weights : {Weights::own, Weights::tied})
      for (const int ranks : {1, 2}) {
        const RunOptions options = on(ranks, compute);
        const GraphRun one = run({.weights = weights}, options);
        const GraphRun two = run({.head = Head::two_ops, .weights = weights}, options);
        EXPECT_EQ(one.loss, two.loss) << compute << ", " << ranks << " ranks";
        EXPECT_EQ(one.gradients, two.gradients) << compute << ", " << ranks << " ranks";
      }
}

TEST(LinearCrossEntropy, PiecesAgreeWithTheTwoOps) {
  for (const Weights weights : {Weights::own, Weights::tied})
    for (const int ranks : {1, 2, 3, 4}) {
      const RunOptions options = on(ranks);
      const GraphRun expected = run({.head = Head::two_ops, .weights = weights}, options);
      for (const Index chunks : chunk_counts) {
        const Difference d =
            difference(run({.chunks = chunks, .weights = weights}, options), expected);
        EXPECT_LT(d.loss, 1e-7) << chunks << " pieces, " << ranks << " ranks";
        EXPECT_LT(d.gradients, 1e-6) << chunks << " pieces, " << ranks << " ranks, " << d.worst;
      }
    }
}

// Gradients of weights are added in fp32 piece by piece and rounded nowhere in between; dlogits and
// dx are rounded to bf16 as without pieces.
TEST(LinearCrossEntropy, PiecesAgreeInBf16) {
  for (const int ranks : {1, 2, 4}) {
    const RunOptions options = on(ranks, DType::bf16);
    const GraphRun expected = run({.head = Head::two_ops}, options);
    for (const Index chunks : chunk_counts) {
      const Difference d = difference(run({.chunks = chunks}, options), expected);
      EXPECT_LT(d.loss, 1e-7) << chunks << " pieces, " << ranks << " ranks";
      EXPECT_LT(d.gradients, 1e-6) << chunks << " pieces, " << ranks << " ranks, " << d.worst;
    }
  }
}

TEST(LinearCrossEntropy, TensorRanksAgreeWithOneRank) {
  for (const Index vocabulary : {Index{5}, Index{29}})  // 5 over 4: a rank with padding only
    for (const Index chunks : {Index{1}, Index{3}, Index{7}}) {
      const Model model{.vocabulary = vocabulary, .chunks = chunks};
      const GraphRun one = run(model);
      for (const int ranks : {2, 3, 4}) {
        const Difference d = difference(run(model, on(ranks)), one);
        EXPECT_LT(d.loss, 1e-6) << ranks << " ranks, vocabulary " << vocabulary;
        EXPECT_LT(d.gradients, 2e-6) << ranks << " ranks, vocabulary " << vocabulary << d.worst;
      }
    }
}

TEST(LinearCrossEntropy, ForwardAndBackwardWhereItIsMadeGiveTheSameBits) {
  for (const Index chunks : chunk_counts) {
    const GraphRun whole = run({.chunks = chunks});
    RunOptions split;
    split.plan.backward = PlanOptions::Backward::split;
    const GraphRun apart = run({.chunks = chunks}, split);
    EXPECT_EQ(apart.loss, whole.loss);
    EXPECT_EQ(apart.gradients, whole.gradients);
  }
}

TEST(LinearCrossEntropy, BackwardMatchesFiniteDifference) {
  for (const Index chunks : {1, 3, 7})
    for (const bool parameter : {false, true}) {  // gradients of parameters are always added to
      const auto build = [&](Graph&, const Values& in) {
        return linear_cross_entropy(in[0], in[1], in[2], 13, chunks);
      };
      const std::vector<CheckInput> inputs = {
          {Spec({7, 9})}, {Spec({13, 9}), -1, 1, parameter}, {Spec({7}, DType::i32), -1, 13}};
      EXPECT_LT(gradient_check(build, inputs, *open_cpu()), 1e-4) << chunks;
    }
}

/// Of a micro-batch whose logits are 64 x 4096.
Plan plan_of(Graph& g, Head head, Index chunks, PlanOptions options = {}) {
  const Value x = rms_norm(linear(g.input("x", {64, hidden_width}), "in", hidden_width), "norm");
  const Value weight = g.parameter("head", {4096, hidden_width}, shard_padded(0), normal(1));
  const Value targets = g.input("targets", Spec({64}, DType::i32));
  const Value loss = head == Head::one_op ? linear_cross_entropy(x, weight, targets, 4096, chunks)
                                          : cross_entropy(linear(x, weight), targets, 4096);
  return Plan(g, {loss}, cut_stages(g, {loss}, 1), 0, options);
}

TEST(LinearCrossEntropy, OfTheLogitsOnePieceExistsAsScratch) {
  for (const auto mode : {PlanOptions::Mode::training, PlanOptions::Mode::forward_only})
    for (const Index chunks : {1, 5, 8, 64}) {
      Graph g;
      const Plan plan = plan_of(g, Head::one_op, chunks, {.mode = mode});
      const Index piece = (64 + chunks - 1) / chunks * 4096 * 4;
      Index largest = 0;
      for (const Instance& i : plan.instances()) {
        if (i.arena == Instance::Arena::slot) {
          EXPECT_LE(i.bytes, 64 * hidden_width * 4) << i.name;
        }
        largest = std::max(largest, i.bytes);
      }
      EXPECT_GE(largest, piece);
      EXPECT_LE(largest, piece + 4096) << chunks;
      EXPECT_LE(plan.bytes().slot + plan.bytes().scratch, piece + 32 * 1024) << chunks;
    }
}

TEST(LinearCrossEntropy, TrainingLeavesForwardOutAndCountsNoMoreWork) {
  Graph one, two;
  const Plan plan = plan_of(one, Head::one_op, 4);
  EXPECT_TRUE(plan.result_in_backward());
  EXPECT_EQ(plan.describe_steps().find("forward  linear_cross_entropy"), std::string::npos)
      << plan.describe_steps();
  EXPECT_EQ(plan.flops(), plan_of(two, Head::two_ops, 1).flops());
}

TEST(LinearCrossEntropy, RefusesWhatDoesNotFit) {
  Graph g(0, 2);
  const Value x = g.parameter("x", {4, 8}, replicated(), normal(1));
  const Value weight = g.parameter("w", {16, 8}, shard_padded(0), normal(1));
  const Value whole = g.parameter("v", {16, 8}, replicated(), normal(1));
  const Value targets = g.input("t", Spec({4}, DType::i32));
  EXPECT_NO_THROW(linear_cross_entropy(enter(x), weight, targets, 16, 4));
  EXPECT_NO_THROW(linear_cross_entropy(x, whole, targets, 16, 4));
  EXPECT_THROW(linear_cross_entropy(x, weight, targets, 16), Error) << "not partial_gradient";
  EXPECT_THROW(linear_cross_entropy(enter(x), whole, targets, 16), Error) << "replicated weights";
  EXPECT_THROW(linear_cross_entropy(enter(x), weight, targets, 17), Error) << "too few columns";
  for (const Index chunks : {-1, 0, 5})
    EXPECT_THROW(linear_cross_entropy(enter(x), weight, targets, 16, chunks), Error) << chunks;
}

}  // namespace
}  // namespace trireme
