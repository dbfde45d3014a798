// Activations against fp64 formulas and finite differences.
#include "trireme/nn/activation.h"

#include <gtest/gtest.h>

#include "trireme/graph/gradient_check.h"

#include "tests/nn/reference.h"
#include "tests/nn/run_graph.h"

namespace trireme {
namespace {

using Pointwise = Value (*)(Value);

double gelu_tanh_reference(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
double gelu_erf_reference(double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }
double silu_reference(double x) { return x / (1 + std::exp(-x)); }

void expect_matches(Pointwise op, double (*reference)(double)) {
  std::vector<float> x = random_floats("x", 7 * 33, 3);
  RunOptions options{.inputs = {{"x", tensor_of(x, {7, 33})}}};
  options.plan.mode = PlanOptions::Mode::forward_only;
  const GraphRun run = run_graph([&](Graph& g) { return op(g.input("x", {7, 33})); }, options);
  ASSERT_EQ(run.result.size(), x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    EXPECT_NEAR(run.result[i], reference(x[i]), 2e-6) << "at x = " << x[i];
}

double check(Pointwise op, Shape shape) {
  return gradient_check([&](Graph&, const Values& in) { return op(in[0]); }, {{Spec(shape), -3, 3}},
                        *open_cpu());
}

TEST(Activation, GeluTanhMatchesItsFormula) { expect_matches(gelu_tanh, gelu_tanh_reference); }
TEST(Activation, GeluErfMatchesItsFormula) { expect_matches(gelu_erf, gelu_erf_reference); }
TEST(Activation, SiluMatchesItsFormula) { expect_matches(silu, silu_reference); }

TEST(Activation, BackwardMatchesFiniteDifference) {
  for (const Shape& shape : {Shape({7, 33}), Shape({1, 1}), Shape({31})}) {
    EXPECT_LT(check(gelu_tanh, shape), 1e-4) << shape;
    EXPECT_LT(check(gelu_erf, shape), 1e-4) << shape;
    EXPECT_LT(check(silu, shape), 1e-4) << shape;
  }
}

TEST(Swiglu, MatchesItsFormula) {
  std::vector<float> x = random_floats("x", 5 * 62, 2);
  RunOptions options{.inputs = {{"x", tensor_of(x, {5, 62})}}};
  options.plan.mode = PlanOptions::Mode::forward_only;
  const GraphRun run = run_graph([&](Graph& g) { return swiglu(g.input("x", {5, 62})); }, options);
  for (std::size_t r = 0; r < 5; ++r)
    for (std::size_t c = 0; c < 31; ++c)
      EXPECT_NEAR(run.result[r * 31 + c], silu_reference(x[r * 62 + c]) * x[r * 62 + 31 + c], 1e-5);
}

TEST(Swiglu, BackwardMatchesFiniteDifference) {
  EXPECT_LT(gradient_check([&](Graph&, const Values& in) { return swiglu(in[0]); },
                           {{Spec({5, 62}), -3, 3}}, *open_cpu()),
            1e-4);
}

TEST(Swiglu, RejectsAnOddNumberOfColumns) {
  Graph g;
  EXPECT_THROW(swiglu(g.input("x", {2, 7})), Error);
}

}  // namespace
}  // namespace trireme
