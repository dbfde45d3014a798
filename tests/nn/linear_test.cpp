// Linear layers against plain products, finite differences, and themselves on one rank.
#include "trireme/nn/linear.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/graph/gradient_check.h"
#include "trireme/nn/activation.h"
#include "trireme/nn/collectives.h"
#include "trireme/nn/loss.h"
#include "trireme/nn/norm.h"
#include "trireme/nn/views.h"

#include "tests/nn/compare_runs.h"
#include "tests/nn/reference.h"
#include "tests/support/message_of.h"

namespace trireme {
namespace {

TEST(Linear, MatchesAPlainProduct) {
  constexpr Index rows = 5, in = 7, out = 3;
  std::vector<float> x = random_floats("x", rows * in), w = random_floats("w", out * in),
                     b = random_floats("b", out);
  RunOptions options{.inputs = {{"x", tensor_of(x, {rows, in})},
                                {"w", tensor_of(w, {out, in})},
                                {"b", tensor_of(b, {out})}}};
  options.plan.mode = PlanOptions::Mode::forward_only;
  const GraphRun run = run_graph(
      [&](Graph& g) {
        return linear(g.input("x", {rows, in}), g.input("w", {out, in}), g.input("b", {out}));
      },
      options);
  for (Index r = 0; r < rows; ++r)
    for (Index o = 0; o < out; ++o) {
      double y = b[std::size_t(o)];
      for (Index i = 0; i < in; ++i)
        y += double(x[std::size_t(r * in + i)]) * w[std::size_t(o * in + i)];
      EXPECT_NEAR(run.result[std::size_t(r * out + o)], y, 1e-5);
    }
}

TEST(Linear, BackwardMatchesFiniteDifference) {
  for (const bool parameter : {false, true}) {
    EXPECT_LT(
        gradient_check(
            [](Graph&, const Values& in) { return linear(in[0], in[1], in[2]); },
            {{Spec({7, 33})}, {Spec({5, 33}), -1, 1, parameter}, {Spec({5}), -1, 1, parameter}},
            *open_cpu()),
        1e-4);
    EXPECT_LT(gradient_check([](Graph&, const Values& in) { return linear(in[0], in[1]); },
                             {{Spec({1, 3})}, {Spec({31, 3}), -1, 1, parameter}}, *open_cpu()),
              1e-4);
  }
}

TEST(Linear, ReadsStridedRows) {
  EXPECT_LT(
      gradient_check([](Graph&, const Values& in) { return linear(slice(in[0], 1, 3, 10), in[1]); },
                     {{Spec({7, 12})}, {Spec({5, 7})}}, *open_cpu()),
      1e-4);
}

TEST(Linear, PackedPartsEqualSeparateLayers) {
  std::vector<float> target = random_floats("target", 6 * 10);
  const RunOptions options{.inputs = {{"target", tensor_of(target, {6, 10})}}};
  const auto error = [](Graph& g, Value y, Index first) {
    const Value part = slice(g.input("target", {6, 10}), 1, first, first + y.shape()[1]);
    return squared_error(y, contiguous(part));
  };
  const auto input = [](Graph& g) { return g.parameter("x", {6, 9}, replicated(), normal(1)); };
  const GraphRun packed = run_graph(
      [&](Graph& g) {
        return error(g, column_linear(input(g), {{"a", 4}, {"b", 6}}), 0);
      },
      options);
  const GraphRun a =
      run_graph([&](Graph& g) { return error(g, column_linear(input(g), "a", 4), 0); }, options);
  const GraphRun b =
      run_graph([&](Graph& g) { return error(g, column_linear(input(g), "b", 6), 4); }, options);
  EXPECT_NEAR(packed.loss, a.loss + b.loss, 1e-5 * packed.loss);
  for (const char* name : {"a.weight", "a.bias"})
    EXPECT_LT(relative_error(packed.gradients.at(name), a.gradients.at(name)), 1e-6) << name;
  for (const char* name : {"b.weight", "b.bias"})
    EXPECT_LT(relative_error(packed.gradients.at(name), b.gradients.at(name)), 1e-6) << name;
}

/// An MLP between residual streams, as models use it.
Value mlp(Graph& g, SequenceParallel sequence, Bias bias) {
  constexpr Index rows = 24, width = 12;
  const bool split = sequence == SequenceParallel::on && g.tensor_size() > 1;
  const Value x = g.parameter("x", {rows, width}, split ? shard(0) : replicated(), normal(1));
  const LinearOptions options{bias, normal(0.3f), sequence};
  Value h = rms_norm(x, "norm");
  h = column_linear(h, {{"gate", 24}, {"up", 24}}, options);
  h = row_linear(swiglu(h), "down", width, options);
  h = rms_norm(h, "middle");  // on split rows: its weight's gradient is a sum over the tensor axis
  h = row_linear(gelu_tanh(column_linear(h, "third", 36, options)), "fourth", width,
                 {bias, normal(0.3f)});
  return squared_error(h, g.input("target", {rows, width}));
}

TEST(Linear, ColumnThenRowEqualsOneRank) {
  std::vector<float> target = random_floats("target", 24 * 12);
  const RunOptions options{.inputs = {{"target", tensor_of(target, {24, 12})}}};
  for (const Bias bias : {Bias::none, Bias::zeros})
    for (const SequenceParallel sequence : {SequenceParallel::off, SequenceParallel::on}) {
      const auto trace = [&](Graph& g) { return mlp(g, sequence, bias); };
      expect_tensor_ranks_agree(trace, options, 2e-6);
    }
}

TEST(Linear, MessagesNameTheLayerAsItsAuthorDid) {
  Graph g(0, 1);
  const Value cube = g.input("x", {4, 8, 2});
  const auto message_of = [&](const auto& layer) -> std::string {
    try {
      g.scope("mlp", layer);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message_of([&] { return linear(cube, "head", 3); }),
              testing::HasSubstr("op 'linear' in scope 'mlp/head'"));
  EXPECT_THAT(message_of([&] { return column_linear(cube, "up", 3); }),
              testing::HasSubstr("op 'linear' in scope 'mlp/up'"));
  EXPECT_THAT(message_of([&] {
                return column_linear(cube, {{"q", 3}, {"k", 3}});
              }),
              testing::HasSubstr("op 'linear' in scope 'mlp/q+k'"));
  EXPECT_THAT(message_of([&] { return row_linear(cube, "down", 3); }),
              testing::HasSubstr("op 'linear' in scope 'mlp/down'"));
}

TEST(Linear, MisplacedInputsAreRejectedWhileTracing) {
  Graph g(0, 2);
  const Value x = g.input("x", {4, 8});
  const Value split = g.parameter("w", {6, 8}, shard(0), normal(1));
  EXPECT_THROW(linear(x, split), Error);                     // not entered
  EXPECT_THAT(message_of([&] { row_linear(x, "row", 4); }),  // whole channels
              testing::HasSubstr("the input is replicated (row_linear takes the result of a "
                                 "column_linear; for a replicated input use linear)"));
  EXPECT_THROW(column_linear(x, "odd", 5), Error);  // 5 / 2
  EXPECT_THROW(linear(g.input("y", {4, 7}), g.input("v", {6, 8})), Error);
}

}  // namespace
}  // namespace trireme
