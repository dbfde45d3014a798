// Norms against fp64 formulas and finite differences; the fused forms against addition, then norm.
#include "trireme/nn/norm.h"

#include <gtest/gtest.h>

#include "trireme/graph/gradient_check.h"
#include "trireme/kernels/norm.h"
#include "trireme/nn/add.h"
#include "trireme/nn/collectives.h"
#include "trireme/nn/loss.h"

#include "tests/nn/reference.h"
#include "tests/nn/run_graph.h"

namespace trireme {
namespace {

TEST(LayerNorm, MatchesItsFormula) {
  constexpr Index rows = 5, channels = 33;
  std::vector<float> x = random_floats("x", rows * channels, 2), w = random_floats("w", channels),
                     b = random_floats("b", channels);
  RunOptions options{.inputs = {{"x", tensor_of(x, {rows, channels})},
                                {"w", tensor_of(w, {channels})},
                                {"b", tensor_of(b, {channels})}}};
  options.plan.mode = PlanOptions::Mode::forward_only;
  const GraphRun run = run_graph(
      [&](Graph& g) {
        return layer_norm(g.input("x", {rows, channels}), g.input("w", {channels}),
                          g.input("b", {channels}));
      },
      options);
  for (Index r = 0; r < rows; ++r) {
    double mean = 0, variance = 0;
    const float* row = x.data() + r * channels;
    for (Index c = 0; c < channels; ++c) mean += row[c] / double(channels);
    for (Index c = 0; c < channels; ++c) variance += std::pow(row[c] - mean, 2) / double(channels);
    for (Index c = 0; c < channels; ++c)
      EXPECT_NEAR(
          run.result[std::size_t(r * channels + c)],
          (row[c] - mean) / std::sqrt(variance + 1e-5) * w[std::size_t(c)] + b[std::size_t(c)],
          1e-5);
  }
}

TEST(RmsNorm, MatchesItsFormula) {
  constexpr Index rows = 3, channels = 31;
  std::vector<float> x = random_floats("x", rows * channels, 2), w = random_floats("w", channels);
  RunOptions options{
      .inputs = {{"x", tensor_of(x, {rows, channels})}, {"w", tensor_of(w, {channels})}}};
  options.plan.mode = PlanOptions::Mode::forward_only;
  const GraphRun run = run_graph(
      [&](Graph& g) {
        return rms_norm(g.input("x", {rows, channels}), g.input("w", {channels}));
      },
      options);
  for (Index r = 0; r < rows; ++r) {
    double square = 0;
    const float* row = x.data() + r * channels;
    for (Index c = 0; c < channels; ++c) square += std::pow(row[c], 2) / double(channels);
    for (Index c = 0; c < channels; ++c)
      EXPECT_NEAR(run.result[std::size_t(r * channels + c)],
                  row[c] / std::sqrt(square + 1e-5) * w[std::size_t(c)], 1e-5);
  }
}

TEST(LayerNorm, BackwardMatchesFiniteDifference) {
  for (const bool parameter : {false, true})
    EXPECT_LT(
        gradient_check(
            [](Graph&, const Values& in) { return layer_norm(in[0], in[1], in[2]); },
            {{Spec({7, 33})}, {Spec({33}), 0.5, 1.5, parameter}, {Spec({33}), -1, 1, parameter}},
            *open_cpu()),
        1e-4);
}

TEST(RmsNorm, BackwardMatchesFiniteDifference) {
  for (const bool parameter : {false, true})
    EXPECT_LT(gradient_check([](Graph&, const Values& in) { return rms_norm(in[0], in[1]); },
                             {{Spec({7, 33})}, {Spec({33}), 0.5, 1.5, parameter}}, *open_cpu()),
              1e-4);
}

enum class NormForm { fused, plain };

/// A residual stream with a norm in the middle: the sum and its norm are both used.
GraphRun residual(NormKind kind, NormForm form, RunOptions options = {}) {
  constexpr Index rows = 12, channels = 33;
  std::vector<float> target = random_floats("target", rows * channels);
  options.inputs["target"] = tensor_of(target, {rows, channels});
  return run_graph(
      [&](Graph& g) {
        const auto rows_of = [&](const char* name) {
          return g.parameter(name, {rows, channels}, replicated(), normal(1));
        };
        const Value x = rows_of("x"), delta = rows_of("delta");
        SumAndNorm both;
        if (form == NormForm::fused) {
          both = kind == NormKind::layer ? add_layer_norm(x, delta, "norm")
                                         : add_rms_norm(x, delta, "norm");
        } else {
          both.sum = x + delta;
          both.normed =
              kind == NormKind::layer ? layer_norm(both.sum, "norm") : rms_norm(both.sum, "norm");
        }
        return squared_error(both.sum + both.normed, g.input("target", {rows, channels}));
      },
      options);
}

TEST(AddNorm, EqualsAdditionThenNormBitForBit) {
  for (const NormKind kind : {NormKind::layer, NormKind::rms}) {
    const GraphRun fused = residual(kind, NormForm::fused), plain = residual(kind, NormForm::plain);
    EXPECT_EQ(fused.loss, plain.loss);
    EXPECT_EQ(fused.gradients, plain.gradients);
    EXPECT_EQ(fused.gradients.at("x"), fused.gradients.at("delta"));
  }
}

TEST(AddNorm, BackwardMatchesFiniteDifference) {
  const CheckInput rows{Spec({7, 33})}, weight{Spec({33}), 0.5, 1.5, true},
      bias{Spec({33}), -1, 1, true};
  EXPECT_LT(gradient_check(
                [](Graph&, const Values& in) {
                  const auto [sum, normed] = add_layer_norm(in[0], in[1], in[2], in[3]);
                  return sum + normed;
                },
                {rows, rows, weight, bias}, *open_cpu()),
            1e-4);
  EXPECT_LT(gradient_check(
                [](Graph&, const Values& in) {
                  const auto [sum, normed] = add_rms_norm(in[0], in[1], in[2]);
                  return sum + normed;
                },
                {rows, rows, weight}, *open_cpu()),
            1e-4);
}

TEST(Norm, RejectsAWeightOfAnotherWidth) {
  Graph g;
  EXPECT_THROW(rms_norm(g.input("x", {2, 7}), g.input("w", {8})), Error);
}

}  // namespace
}  // namespace trireme
