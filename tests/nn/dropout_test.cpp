// Dropout drops by global element: the same for every split of the micro-batch, the rows and the
// columns.
#include "trireme/nn/dropout.h"

#include <gtest/gtest.h>

#include "trireme/graph/gradient_check.h"
#include "trireme/nn/add.h"
#include "trireme/nn/collectives.h"
#include "trireme/nn/linear.h"
#include "trireme/nn/loss.h"

#include "tests/nn/compare_runs.h"
#include "tests/nn/reference.h"

namespace trireme {
namespace {

constexpr Index sequence = 12, width = 24;

std::vector<float> drop_ones(Index batch, float rate, Index first_sample) {
  std::vector<float> x(static_cast<std::size_t>(batch * sequence * width), 1.0f);
  RunOptions options{.inputs = {{"x", tensor_of(x, {batch * sequence, width})}},
                     .first_sample = first_sample};
  options.plan.mode = PlanOptions::Mode::forward_only;
  return run_graph(
             [&](Graph& g) {
               return dropout(g.input("x", {batch * sequence, width}), rate, sequence);
             },
             options)
      .result;
}

TEST(Dropout, KeepsTheMeanAndDropsTheRate) {
  const std::vector<float> y = drop_ones(40, 0.25f, 0);
  double kept = 0;
  for (const float v : y) {
    EXPECT_TRUE(v == 0 || std::abs(v - 4.0f / 3.0f) < 1e-6f) << v;
    kept += v != 0;
  }
  EXPECT_NEAR(kept / double(y.size()), 0.75, 0.02);
}

TEST(Dropout, IsTheSameForEveryMicroBatchSplit) {
  const std::vector<float> whole = drop_ones(4, 0.5f, 0);
  std::vector<float> parts;
  for (const Index first : {0, 2}) {
    const std::vector<float> part = drop_ones(2, 0.5f, first);
    parts.insert(parts.end(), part.begin(), part.end());
  }
  EXPECT_EQ(whole, parts);
  EXPECT_NE(whole, drop_ones(4, 0.5f, 1));
}

TEST(Dropout, BackwardMatchesFiniteDifference) {
  EXPECT_LT(gradient_check([](Graph&, const Values& in) { return dropout(in[0], 0.3f, 3); },
                           {{Spec({9, 11})}}, *open_cpu()),
            1e-4);
}

TEST(Dropout, OfSplitRowsAndColumnsEqualsOneRank) {
  std::vector<float> target = random_floats("target", 2 * sequence * width);
  const RunOptions options{.inputs = {{"target", tensor_of(target, {2 * sequence, width})}},
                           .first_sample = 3};
  for (const SequenceParallel parallel : {SequenceParallel::off, SequenceParallel::on}) {
    const auto trace = [&](Graph& g) {
      const bool split = parallel == SequenceParallel::on && g.tensor_size() > 1;
      Value x = g.parameter("x", {2 * sequence, width}, split ? shard(0) : replicated(), normal(1));
      x = x + dropout(x, 0.4f, sequence);
      Value h = column_linear(x, "up", 48, {Bias::zeros, normal(0.3f)});
      h = dropout(h, 0.4f, sequence, SplitDim::columns);
      h = dropout(row_linear(h, "down", width, {Bias::zeros, normal(0.3f), parallel}), 0.4f,
                  sequence);
      h = row_linear(column_linear(h, "third", 48), "fourth", width);
      return squared_error(h, g.input("target", {2 * sequence, width}));
    };
    expect_tensor_ranks_agree(trace, options, 3e-6);
  }
}

TEST(Dropout, RejectsRatesThatDropEverything) {
  Graph g;
  const Value x = g.input("x", {sequence, width});
  EXPECT_THROW(dropout(x, 1.0f, sequence), Error);
  EXPECT_THROW(dropout(x, -0.1f, sequence), Error);
  EXPECT_EQ(dropout(x, 0, sequence).id(), x.id());
}

}  // namespace
}  // namespace trireme
