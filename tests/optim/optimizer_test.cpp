// AdamW and SGD over many steps against references, bit-equal on every layout, sharded or not.
#include "runtime/optim/optimizer.h"

#include <atomic>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "trireme/core/random.h"

#include "tests/optim/mesh_steps.h"

namespace trireme {
namespace {

using namespace testing;
using Kind = OptimizerOptions::Kind;

/// The update of one element in fp64, from the papers.
struct Reference {
  OptimizerOptions options;
  double parameter = 0, first = 0, second = 0;

  void step(double gradient, double rate, double decay, int t) {
    const auto& o = options;
    if (o.kind == Kind::adamw) {
      first = o.beta1 * first + (1 - o.beta1) * gradient;
      second = o.beta2 * second + (1 - o.beta2) * gradient * gradient;
      const double m = first / (1 - std::pow(o.beta1, t)), v = second / (1 - std::pow(o.beta2, t));
      parameter -= rate * (m / (std::sqrt(v) + o.epsilon) + decay * parameter);
    } else {
      first = o.momentum * first + gradient + decay * parameter;
      parameter -= rate * first;
    }
  }
};

/// State beyond what the lists of ranges take.
Index moment_bytes(const FlatLayout& flat, const OptimizerOptions& options) {
  return Optimizer::state_bytes(flat, options) -
         Optimizer::state_bytes(flat, {.kind = Kind::sgd, .momentum = 0});
}

void expect_like_reference(const OptimizerOptions& options) {
  const auto mesh = make_self_mesh();
  StepRank r(*mesh, {1, 1, 1, 1}, {}, options);
  const FlatParameters& flat = *r.model.flat;
  const std::vector<FlatExtent> extents = flat.parameter_extents();
  std::vector<Reference> reference(static_cast<std::size_t>(flat.count()));
  for (std::size_t i = 0; i < reference.size(); ++i)
    reference[i] = {options, flat.master_data()[i]};
  for (int t = 1; t <= 100; ++t) {
    r.reducer->begin_step();
    double sum = 0;
    for (const FlatExtent& extent : extents)
      for_each_element(extent, [&](Index, Index offset) {
        const float g = random_for(3, "gradient", static_cast<std::uint64_t>(t)).normal(offset) *
                        (t < 50 ? 1.0f : 0.01f);  // clipped at first, then not
        flat.gradient_data()[offset] = g;
        sum += static_cast<double>(g) * g;
      });
    r.reducer->finish();
    const double rate = 0.01 / t;
    const StepReport report = r.update(rate);
    const double norm = std::sqrt(sum);
    EXPECT_NEAR(report.grad_norm, norm, 1e-9 * norm);
    const double scale =
        options.clip_norm == 0 ? 1 : std::min(1.0, options.clip_norm / (norm + 1e-6));
    EXPECT_NEAR(report.clip_coefficient, scale, 1e-9);
    EXPECT_FALSE(report.skipped);
    for (std::size_t p = 0; p < flat.parameters().size(); ++p) {
      const double decay = flat.declared(static_cast<int>(p)).decays() ? options.weight_decay : 0;
      const FlatRange& range = flat.parameters()[p].range;
      for (Index i = range.begin; i < range.end(); ++i)
        reference[static_cast<std::size_t>(i)].step(
            scale * static_cast<double>(flat.gradient_data()[i]), rate, decay, t);
    }
  }
  EXPECT_EQ(r.optimizer->updates(), 100);
  for (Index i = 0; i < flat.count(); ++i)
    ASSERT_NEAR(flat.master_data()[i], reference[static_cast<std::size_t>(i)].parameter, 3e-6) << i;
}

TEST(Optimizer, AdamWFollowsThePaperOverManySteps) {
  expect_like_reference({.kind = Kind::adamw, .weight_decay = 0.3, .clip_norm = 1});
}
TEST(Optimizer, SgdWithMomentumFollowsTheReferenceOverManySteps) {
  expect_like_reference({.kind = Kind::sgd, .momentum = 0.9, .weight_decay = 0.3, .clip_norm = 5});
}
TEST(Optimizer, PlainSgdNeedsNoState) {
  const OptimizerOptions options{.kind = Kind::sgd, .momentum = 0, .clip_norm = 0};
  expect_like_reference(options);
  const auto mesh = make_self_mesh();
  StepRank r(*mesh, {1, 1, 1, 1}, {}, options);
  EXPECT_EQ(moment_bytes(*r.model.flat, options), 0);
  EXPECT_TRUE(r.optimizer->state_tensors().empty());
}

TEST(Optimizer, AStepIsFinishedBeforeTheNextOneStarts) {
  const auto mesh = make_self_mesh();
  StepRank r(*mesh, {1, 1, 1, 1}, {}, {});
  r.begin(0);
  r.backward();
  r.reducer->finish();
  EXPECT_THROW(r.optimizer->finish_step(), Error);
  r.set_rate(0.01);
  r.optimizer->start_step();
  EXPECT_EQ(r.optimizer->updates(), 0);  // not known yet
  EXPECT_THROW(r.optimizer->start_step(), Error);
  EXPECT_FALSE(r.optimizer->finish_step().skipped);
  EXPECT_EQ(r.optimizer->updates(), 1);
}

TEST(Optimizer, NormsAndBiasesDoNotDecay) {
  const auto mesh = make_self_mesh();
  StepRank r(*mesh, {1, 1, 1, 1}, {}, {.kind = Kind::sgd, .momentum = 0, .weight_decay = 0.5});
  const FlatParameters& flat = *r.model.flat;
  std::fill_n(flat.master_data(), flat.count(), 1.0f);
  r.reducer->begin_step();
  r.update(0.5);
  for (const FlatExtent& extent : flat.parameter_extents())
    for_each_element(extent, [&](Index, Index offset) {
      ASSERT_EQ(flat.master_data()[offset], extent.extent.global.dims() == 1 ? 1.0f : 0.75f)
          << extent.extent.name;
    });
}

struct Result {
  Gathered parameters, states;
};

void run(const Layout& layout, Update update, const OptimizerOptions& options,
         const ThreadTransport& transport, Result& result) {
  run_on_threads(
      layout.shape(),
      [&](Mesh& mesh) {
        StepRank r(mesh, layout, {.chunks = layout.chunks, .update = update}, options);
        for (Index step = 0; step < 5; ++step) r.step(step, 0.01);
        const FlatParameters& flat = *r.model.flat;
        result.parameters.add(flat.parameter_extents(), flat.master_data());
        for (const Optimizer::StateTensor& state : r.optimizer->state_tensors())
          result.states.add(flat.state_extents(), state.data, state.name + ".");
      },
      transport);
}

void expect_layout_free(const std::vector<Layout>& of, const OptimizerOptions& options,
                        const ThreadTransport& transport) {
  Result alone;
  run({1, 1, 1, 1}, Update::replicated, options, {}, alone);
  for (const Layout& layout : of)
    for (Update update : {Update::replicated, Update::sharded}) {
      SCOPED_TRACE(describe(layout));
      Result result;
      run(layout, update, options, transport, result);
      EXPECT_EQ(result.parameters.disagreements(), 0);
      EXPECT_EQ(result.states.disagreements(), 0);
      EXPECT_TRUE(result.parameters.tensors() == alone.parameters.tensors());
      EXPECT_TRUE(result.states.tensors() == alone.states.tensors());
    }
}

// The gradients are small integers, so all sums are exact: every layout, sharded or not, has to
// agree bit for bit.
TEST(Optimizer, AdamWIsBitwiseEqualOnEveryLayoutShardedOrNot) {
  expect_layout_free(layouts(), {.kind = Kind::adamw, .clip_norm = 1}, {});
}
TEST(Optimizer, SgdIsBitwiseEqualOnEveryLayoutShardedOrNot) {
  expect_layout_free(mixed_layouts(), {.kind = Kind::sgd, .clip_norm = 0}, {});
}
TEST(Optimizer, AHostileTransportChangesNothing) {
  expect_layout_free(mixed_layouts(), {.kind = Kind::adamw}, {.hostile_seed = 5});
}

TEST(Optimizer, AShardedUpdateKeepsOnlyItsSliceOfTheState) {
  const MeshShape shape(4, 1, 1);
  const TinyRank whole(shape, 1, {}), slice(shape, 1, {.update = Update::sharded});
  EXPECT_EQ(moment_bytes(*whole.layout, {}), 8 * whole.layout->count());
  EXPECT_EQ(moment_bytes(*slice.layout, {}), 8 * slice.layout->count() / 4);
}

TEST(Optimizer, AStepThatIsNotFiniteIsSkippedOnAllRanksAlike) {
  const Layout layout{2, 2, 2, 1};
  for (Update update : {Update::replicated, Update::sharded})
    for (float bad :
         {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
      std::atomic<int> skipped = 0;
      run_on_threads(layout.shape(), [&](Mesh& mesh) {
        StepRank r(mesh, layout, {.update = update}, {});
        const FlatParameters& flat = *r.model.flat;
        EXPECT_FALSE(r.step(0, 0.01).skipped);
        const std::vector<float> before(flat.master_data(), flat.master_data() + flat.count());
        r.begin(1);
        if (mesh.rank() == 6) flat.gradient_data()[flat.parameters().front().range.begin] = bad;
        r.backward();
        r.reducer->finish();
        const StepReport report = r.update(0.01);
        skipped += report.skipped;
        EXPECT_FALSE(std::isfinite(report.grad_norm));
        EXPECT_EQ(before,
                  std::vector<float>(flat.master_data(), flat.master_data() + flat.count()));
        EXPECT_FALSE(r.step(2, 0.01).skipped);
        EXPECT_EQ(r.optimizer->updates(), 2);
        EXPECT_EQ(r.optimizer->skipped(), 1);
      });
      EXPECT_EQ(skipped, 8);
    }
}

TEST(Optimizer, BiasCorrectionCountsUpdatesAndCanBeRestored) {
  const auto mesh = make_self_mesh();
  StepRank a(*mesh, {1, 1, 1, 1}, {}, {}), b(*mesh, {1, 1, 1, 1}, {}, {});
  for (Index step = 0; step < 4; ++step) a.step(step, 0.01);
  const FlatParameters &from = *a.model.flat, &to = *b.model.flat;
  std::copy_n(from.master_data(), from.count(), to.master_data());
  std::copy_n(a.state.data(), a.state.bytes(), b.state.data());
  b.optimizer->set_updates(a.optimizer->updates());
  a.step(9, 0.01);
  b.step(9, 0.01);
  for (Index i = 0; i < from.count(); ++i) ASSERT_EQ(from.master_data()[i], to.master_data()[i]);
  EXPECT_THROW(b.optimizer->set_updates(-1), Error);
}

TEST(Optimizer, RejectsOptionsOutOfRangeAndNamesThem) {
  const auto mesh = make_self_mesh();
  const auto expect_message = [&](const OptimizerOptions& options, const std::string& part) {
    try {
      StepRank r(*mesh, {1, 1, 1, 1}, {}, options);
      FAIL() << "accepted; expected an error with: " << part;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  expect_message({.beta1 = 1}, "--adam-beta1 is 1");
  expect_message({.beta2 = -0.5}, "--adam-beta2 is -0.5");
  expect_message({.epsilon = 0}, "--adam-eps is 0");
  expect_message({.epsilon = 1e-46}, "--adam-eps is 1e-46");
  expect_message({.kind = Kind::sgd, .momentum = 2}, "--momentum is 2");
  expect_message({.weight_decay = -1}, "--weight-decay is -1");
  expect_message({.clip_norm = -1}, "--clip-grad is -1");
}

}  // namespace
}  // namespace trireme
