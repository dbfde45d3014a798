// Gradients are summed over the whole mesh, bucket by bucket, and their norm counts every element
// once.
#include "runtime/optim/gradient_reducer.h"

#include <cmath>
#include <limits>
#include <set>

#include <gtest/gtest.h>

#include "tests/optim/mesh_steps.h"

namespace trireme {
namespace {

using namespace testing;

/// Global norm of the tiny model's true gradients, in closed form.
double true_norm(int blocks) {
  Graph graph;
  tiny_model(graph, blocks);
  double sum = 0;
  for (const Parameter& p : graph.parameters())
    for (const ParameterPart& part : p.parts)
      for (Index i = 0; i < part.global.count(); ++i)
        sum += std::pow(true_gradient(part.name, i), 2);
  return std::sqrt(sum);
}

void expect_reduced(StepRank& r, Index step) {
  const FlatParameters& flat = *r.model.flat;
  for (const FlatExtent& extent : flat.parameter_extents())
    for_each_element(extent, [&](Index i, Index offset) {
      for (const Bucket& bucket : flat.buckets()) {
        const FlatRange mine = flat.updated(bucket);
        if (offset >= mine.begin && offset < mine.end()) {
          ASSERT_EQ(flat.gradient_data()[offset], true_gradient(extent.extent.name, i, step))
              << extent.extent.name << " " << i;
        }
      }
    });
}

void expect_sums(const std::vector<Layout>& of, const ThreadTransport& transport) {
  for (const Layout& layout : of)
    for (Update update : {Update::replicated, Update::sharded}) {
      SCOPED_TRACE(describe(layout));
      run_on_threads(
          layout.shape(),
          [&](Mesh& mesh) {
            StepRank r(mesh, layout, {.chunks = layout.chunks, .update = update}, {});
            for (Index step = 0; step < 3; ++step) {
              r.begin(step);
              r.backward();
              r.reducer->finish();
              expect_reduced(r, step);
            }
          },
          transport);
    }
}

TEST(GradientReducer, GradientsAreSummedOverTheWholeMeshOnEveryLayout) {
  expect_sums(layouts(), {});
}

TEST(GradientReducer, GradientsAreSummedUnderAHostileTransport) {
  for (std::uint64_t seed : {1u, 2u}) expect_sums(mixed_layouts(), {.hostile_seed = seed});
}

TEST(GradientReducer, BucketsThatGotNoGradientAreReducedAtTheEnd) {
  const Layout layout{2, 1, 1, 1};
  run_on_threads(layout.shape(), [&](Mesh& mesh) {
    StepRank r(mesh, layout, {}, {});
    r.begin(0);
    GradientReducer::Hooks(r.reducer.get(), 0).gradient_ready(0);
    r.reducer->finish();
    expect_reduced(r, 0);
  });
}

TEST(GradientReducer, ReductionsStartInTheBackwardPassAsTheirBucketsBecomeReady) {
  for (const Layout& layout : {Layout{2, 1, 1, 1}, Layout{2, 2, 2, 2}})
    run_on_threads(layout.shape(), [&](Mesh& mesh) {
      StepRank r(mesh, layout, {.chunks = layout.chunks, .bucket_bytes = 100}, {});
      for (Index step = 0; step < 2; ++step) {
        r.begin(step);
        r.backward();
        r.reducer->finish();
        const ReductionRecord& record = r.reducer->record();
        ASSERT_EQ(record.entries.size(), r.model.layout->buckets().size());
        EXPECT_LT(record.entries.front().boundary, record.boundaries / 2);
        EXPECT_LT(record.entries.front().start_ms, record.backward_end_ms);
        for (const ReductionRecord::Entry& entry : record.entries) {
          EXPECT_LE(entry.start_ms, entry.done_ms);
          EXPECT_LE(record.backward_end_ms, entry.done_ms);
        }
      }
    });
}

TEST(GradientReducer, OneRankStartsNothing) {
  const auto mesh = make_self_mesh();
  StepRank r(*mesh, {1, 1, 1, 1}, {}, {});
  r.begin(0);
  r.backward();
  r.reducer->finish();
  EXPECT_TRUE(r.reducer->record().entries.empty());
}

TEST(GradientReducer, MoreGradientsThanABucketHasAreAnError) {
  const auto mesh = make_self_mesh();
  StepRank r(*mesh, {1, 1, 1, 1}, {}, {});
  r.begin(0);
  r.backward();
  EXPECT_THROW(GradientReducer::Hooks(r.reducer.get(), 0).gradient_ready(0), Error);
}

TEST(GradientNorm, EveryLogicalElementCountsOnceOnEveryLayout) {
  const double expected = true_norm(4);
  for (const Layout& layout : layouts())
    for (Update update : {Update::replicated, Update::sharded}) {
      SCOPED_TRACE(describe(layout));
      run_on_threads(layout.shape(), [&](Mesh& mesh) {
        StepRank r(mesh, layout, {.chunks = layout.chunks, .update = update}, {});
        EXPECT_NEAR(r.step(0, 0).grad_norm, expected, 1e-12 * expected);
      });
    }
}

}  // namespace
}  // namespace trireme
