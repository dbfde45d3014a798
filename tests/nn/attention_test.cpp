// Attention and rotary positions against plain fp64 references and finite differences.
#include "trireme/nn/attention.h"

#include <gtest/gtest.h>

#include "trireme/graph/gradient_check.h"
#include "trireme/nn/linear.h"
#include "trireme/nn/loss.h"
#include "trireme/nn/rotary.h"

#include "tests/nn/compare_runs.h"
#include "tests/nn/reference.h"
#include "tests/support/finite_or_huge.h"

namespace trireme {
namespace {

/// One query head at one position: softmax(q k^T / sqrt(d)) v over the positions up to it.
std::vector<double> attend(const float* qkv, Index columns, Index t, Index q, Index k, Index v,
                           Index d) {
  std::vector<double> weight(std::size_t(t + 1)), y(static_cast<std::size_t>(d));
  double largest = -1e30, sum = 0;
  for (Index s = 0; s <= t; ++s) {
    double score = 0;
    for (Index c = 0; c < d; ++c)
      score += double(qkv[t * columns + q + c]) * qkv[s * columns + k + c];
    weight[std::size_t(s)] = score / std::sqrt(double(d));
    largest = std::max(largest, weight[std::size_t(s)]);
  }
  for (double& w : weight) sum += w = std::exp(w - largest);
  for (Index s = 0; s <= t; ++s)
    for (Index c = 0; c < d; ++c)
      y[std::size_t(c)] += weight[std::size_t(s)] / sum * qkv[s * columns + v + c];
  return y;
}

void expect_attention(Index batch, Index sequence, AttentionHeads heads) {
  const Index columns = (heads.query + 2 * heads.kv) * heads.head_dim, d = heads.head_dim;
  std::vector<float> qkv = random_floats("qkv", batch * sequence * columns);
  RunOptions options{.inputs = {{"qkv", tensor_of(qkv, {batch * sequence, columns})}}};
  options.plan.mode = PlanOptions::Mode::forward_only;
  const GraphRun run = run_graph(
      [&](Graph& g) {
        return causal_attention(g.input("qkv", {batch * sequence, columns}), sequence, heads);
      },
      options);
  double error = 0;
  for (Index b = 0; b < batch; ++b)
    for (Index t = 0; t < sequence; ++t)
      for (Index h = 0; h < heads.query; ++h) {
        const Index kv = h * heads.kv / heads.query;
        const std::vector<double> y =
            attend(qkv.data() + b * sequence * columns, columns, t, h * d, (heads.query + kv) * d,
                   (heads.query + heads.kv + kv) * d, d);
        for (Index c = 0; c < d; ++c)
          error = std::max(
              error, test::finite_or_huge(std::abs(
                         y[std::size_t(c)] -
                         run.result[std::size_t(((b * sequence + t) * heads.query + h) * d + c)])));
      }
  EXPECT_LT(error, 1e-5) << heads.query << " over " << heads.kv;
}

TEST(Attention, MatchesThePlainFormula) {
  expect_attention(2, 33, {3, 3, 8});
  expect_attention(1, 31, {6, 2, 5});
  expect_attention(3, 1, {4, 1, 16});
}

TEST(Attention, BackwardMatchesFiniteDifference) {
  for (const AttentionHeads heads : {AttentionHeads{2, 2, 4}, AttentionHeads{4, 2, 3}})
    EXPECT_LT(
        gradient_check([&](Graph&, const Values& in) { return causal_attention(in[0], 7, heads); },
                       {{Spec({14, (heads.query + 2 * heads.kv) * heads.head_dim})}}, *open_cpu()),
        1e-4);
}

TEST(Attention, RejectsRowsOfAnotherShape) {
  Graph g;
  EXPECT_THROW(causal_attention(g.input("a", {14, 30}), 7, {2, 2, 4}), Error);
  EXPECT_THROW(causal_attention(g.input("b", {15, 24}), 7, {2, 2, 4}), Error);
  EXPECT_THROW(causal_attention(g.input("c", {14, 28}), 7, {3, 2, 4}), Error);
}

TEST(Rotary, TurnsQueriesAndKeysByTheirPosition) {
  constexpr Index sequence = 5, d = 6,
                  columns = 4 * d;  // two query heads, a key head, a value head
  std::vector<float> x = random_floats("x", 2 * sequence * columns);
  RunOptions options{.inputs = {{"x", tensor_of(x, {2 * sequence, columns})}}};
  options.plan.mode = PlanOptions::Mode::forward_only;
  const GraphRun run = run_graph(
      [&](Graph& g) {
        return rotary(g.input("x", {2 * sequence, columns}),
                      std::make_shared<const RotaryTable>(sequence, d, 100.0f), 3);
      },
      options);
  for (Index r = 0; r < 2 * sequence; ++r)
    for (Index h = 0; h < 4; ++h)
      for (Index j = 0; j < d / 2; ++j) {
        const Index at = r * columns + h * d + j;
        const double a = x[std::size_t(at)], b = x[std::size_t(at + d / 2)];
        const double angle =
            h < 3 ? double(r % sequence) * std::pow(100.0, -2.0 * double(j) / d) : 0;
        EXPECT_NEAR(run.result[std::size_t(at)], a * std::cos(angle) - b * std::sin(angle), 1e-5);
        EXPECT_NEAR(run.result[std::size_t(at + d / 2)], a * std::sin(angle) + b * std::cos(angle),
                    1e-5);
      }
}

TEST(Rotary, BackwardMatchesFiniteDifference) {
  const auto table = std::make_shared<const RotaryTable>(7, 4, 100.0f);
  EXPECT_LT(gradient_check([&](Graph&, const Values& in) { return rotary(in[0], table, 3); },
                           {{Spec({14, 20})}}, *open_cpu()),
            1e-4);
}

TEST(Attention, SplitHeadsEqualOneRank) {
  constexpr Index sequence = 6, rows = 2 * sequence, width = 48, query = 24, kv = 12, d = 2;
  std::vector<float> target = random_floats("target", rows * width);
  const RunOptions options{.inputs = {{"target", tensor_of(target, {rows, width})}}};
  const auto table = std::make_shared<const RotaryTable>(sequence, d, 1e4f);
  const auto trace = [&](Graph& g) {
    const Value x = g.parameter("x", {rows, width}, replicated(), normal(1));
    const AttentionHeads heads{query / g.tensor_size(), kv / g.tensor_size(), d};
    const Value qkv =
        column_linear(x, {{"q", width}, {"k", kv * d}, {"v", kv * d}}, {Bias::zeros, normal(0.3f)});
    const Value turned = rotary(qkv, table, heads.query + heads.kv);
    const Value y = row_linear(causal_attention(turned, sequence, heads), "o", width);
    return squared_error(y, g.input("target", {rows, width}));
  };
  expect_tensor_ranks_agree(trace, options, 3e-6);
}

}  // namespace
}  // namespace trireme
