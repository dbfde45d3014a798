// All configurations of a plan do the same arithmetic: gradients and losses are equal bit for bit,
// with every buffer NaN before its life and after its death.
#include <gtest/gtest.h>

#include "tests/graph/random_graph.h"
#include "tests/graph/runner.h"

namespace trireme::test {
namespace {

PlanOptions plain() {
  PlanOptions options;
  options.share = options.pack = false;
  return options;
}

std::vector<RunOptions> configurations() {
  std::vector<RunOptions> out;
  for (const int stages : {1, 2, 3, 4})
    for (const bool share : {false, true})
      for (const bool pack : {false, true})
        for (const auto backward : {PlanOptions::Backward::whole, PlanOptions::Backward::split}) {
          RunOptions options;
          options.stages = stages;
          options.plan.share = share;
          options.plan.pack = pack;
          options.plan.poison = true;
          options.plan.backward = backward;
          out.push_back(options);
        }
  return out;
}

std::string describe(const RunOptions& o) {
  return str(o.stages, " stages", o.plan.share ? ", shared" : "", o.plan.pack ? ", packed" : "",
             o.plan.backward == PlanOptions::Backward::split ? ", split" : "");
}

/// Those of `base`, but for frozen parameters, which have none.
void expect_gradients(const RandomGraph& random, int stages, const RunResult& result,
                      const RunResult& base) {
  const StageCut cut = cut_stages(random.graph, {random.loss}, stages);
  for (std::size_t p = 0; p < base.gradients.size(); ++p) {
    if (random.graph.parameters()[p].frozen()) {
      EXPECT_EQ(result.gradients[p], std::vector<float>(base.gradients[p].size(), 0.0f));
      continue;
    }
    if (cut.holders[p].size() <= 1) {
      EXPECT_EQ(result.gradients[p], base.gradients[p]) << "parameter " << p;
      continue;
    }
    // A tied parameter's gradients are summed over stages, in another order than on one stage.
    for (std::size_t i = 0; i < base.gradients[p].size(); ++i)
      EXPECT_NEAR(result.gradients[p][i], base.gradients[p][i],
                  1e-5 + 1e-5 * std::abs(base.gradients[p][i]));
  }
}

void check(unsigned seed) {
  const RandomGraph random(seed);
  // The same with all values made once and in forward.
  const RandomGraph kept(seed, RandomGraph::Scopes::none, LossMade::in_forward);
  const RunResult base = run(kept.graph, kept.loss, {.plan = plain()});
  for (const double loss : base.losses) ASSERT_TRUE(std::isfinite(loss));
  EXPECT_LT(directional_error(random.graph, random.loss, base), 1e-3);
  for (const RunOptions& options : configurations()) {
    SCOPED_TRACE(str("seed ", seed, ", ", describe(options)));
    const RunResult result = run(random.graph, random.loss, options);
    EXPECT_EQ(result.losses, base.losses);
    expect_gradients(random, options.stages, result, base);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(PlanFuzz, AllPlansOfRandomGraphsAgreeBitForBitAndWithFiniteDifferences) {
  for (unsigned seed = 0; seed < 30 && !HasFailure(); ++seed) check(seed);
}

TEST(PlanFuzz, FrozenParametersGetNoGradientsAndChangeThoseOfNoOthers) {
  for (unsigned seed = 0; seed < 30 && !HasFailure(); ++seed) {
    RandomGraph random(seed);
    const RunResult base = run(random.graph, random.loss, {});
    const auto count = static_cast<int>(base.gradients.size());
    for (int p = static_cast<int>(seed) % 2; p < count; p += 2)
      random.graph.assign(p, {.trained = false});
    for (const RunOptions& options : configurations()) {
      if (!options.plan.share || !options.plan.pack) continue;
      SCOPED_TRACE(str("seed ", seed, ", ", describe(options)));
      const RunResult result = run(random.graph, random.loss, options);
      EXPECT_EQ(result.losses, base.losses);
      expect_gradients(random, options.stages, result, base);
    }
  }
}

}  // namespace
}  // namespace trireme::test
