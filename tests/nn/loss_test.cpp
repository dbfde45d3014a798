// Losses against plain fp64 references, finite differences, and themselves on one rank.
#include "trireme/nn/loss.h"

#include <gtest/gtest.h>

#include "trireme/graph/gradient_check.h"
#include "trireme/kernels/cross_entropy.h"
#include "trireme/nn/collectives.h"
#include "trireme/nn/linear.h"

#include "tests/nn/compare_runs.h"
#include "tests/nn/reference.h"

namespace trireme {
namespace {

TEST(CrossEntropy, MatchesItsFormulaAndIgnoresTargetsBelowZero) {
  constexpr Index rows = 9, columns = 13, vocabulary = 11;  // two columns of padding
  std::vector<std::int32_t> targets = random_tokens("targets", rows, vocabulary);
  targets[4] = ignored_target;
  targets[7] = -1;
  const RunOptions options{.inputs = {{"targets", tensor_of(targets, {3, 3})}}};
  std::vector<float> logits(std::size_t(rows * columns));
  for (Index i = 0; i < rows * columns; ++i)
    logits[std::size_t(i)] = 3 * random_for(7, "logits").normal(i);
  const GraphRun run = run_graph(
      [&](Graph& g) {
        return cross_entropy(g.parameter("logits", {rows, columns}, replicated(), normal(3)),
                             g.input("targets", Spec({3, 3}, DType::i32)), vocabulary);
      },
      options);
  double loss = 0;
  for (Index r = 0; r < rows; ++r) {
    const std::int32_t target = targets[std::size_t(r)];
    double sum = 0;
    for (Index c = 0; c < vocabulary; ++c)
      sum += std::exp(double(logits[std::size_t(r * columns + c)]));
    if (target >= 0) loss += std::log(sum) - logits[std::size_t(r * columns + target)];
    for (Index c = 0; c < columns; ++c) {
      const double softmax =
          c < vocabulary ? std::exp(double(logits[std::size_t(r * columns + c)])) / sum : 0;
      EXPECT_NEAR(run.gradients.at("logits")[std::size_t(r * columns + c)],
                  target < 0 ? 0 : softmax - (c == target), 1e-6);
    }
  }
  EXPECT_NEAR(run.loss, loss, 1e-6 * loss);
}

TEST(CrossEntropy, BackwardMatchesFiniteDifference) {
  EXPECT_LT(gradient_check([](Graph&, const Values& in) { return cross_entropy(in[0], in[1], 31); },
                           {{Spec({7, 31})}, {Spec({7}, DType::i32), -1, 31}}, *open_cpu()),
            1e-4);
}

TEST(CrossEntropy, VocabularyParallelEqualsOneRank) {
  for (const Index vocabulary :
       {Index{5}, Index{13}, Index{24}}) {  // 5 over 4: a rank with padding only
    SCOPED_TRACE(vocabulary);
    constexpr Index rows = 12, width = 6;
    std::vector<std::int32_t> targets = random_tokens("targets", rows, vocabulary);
    targets[3] = targets[8] = ignored_target;
    const RunOptions options{.inputs = {{"targets", tensor_of(targets, {rows})}}};
    const auto trace = [&](Graph& g) {
      const Value x = g.parameter("x", {rows, width}, replicated(), normal(1));
      const Value table = g.parameter("table", {vocabulary, width}, shard_padded(0), normal(1));
      return cross_entropy(linear(enter_region(x), table),
                           g.input("targets", Spec({rows}, DType::i32)), vocabulary);
    };
    expect_tensor_ranks_agree(trace, options, 2e-6);
  }
}

TEST(CrossEntropy, RejectsEnteredLogits) {
  Graph g(0, 2);
  const Value logits = enter(g.parameter("l", {4, 8}, replicated(), normal(1)));
  EXPECT_THROW(cross_entropy(logits, g.input("t", Spec({4}, DType::i32)), 8), Error);
}

TEST(SquaredError, MatchesItsFormula) {
  std::vector<float> target = random_floats("target", 35);
  const RunOptions options{.inputs = {{"target", tensor_of(target, {5, 7})}}};
  const GraphRun run = run_graph(
      [](Graph& g) {
        return squared_error(g.parameter("x", {5, 7}, replicated(), normal(1)),
                             g.input("target", {5, 7}));
      },
      options);
  double loss = 0;
  for (Index i = 0; i < 35; ++i) {
    const double d = double(random_for(7, "x").normal(i)) - target[std::size_t(i)];
    loss += d * d;
    EXPECT_NEAR(run.gradients.at("x")[std::size_t(i)], 2 * d, 1e-6);
  }
  EXPECT_NEAR(run.loss, loss, 1e-9 * loss);
}

}  // namespace
}  // namespace trireme
