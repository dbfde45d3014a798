// The tensor-parallel collectives: values and gradients against one rank, and misuse rejected while
// tracing.
#include "trireme/nn/collectives.h"

#include <gtest/gtest.h>

#include "trireme/graph/gradient_check.h"
#include "trireme/nn/activation.h"
#include "trireme/nn/add.h"
#include "trireme/nn/linear.h"
#include "trireme/nn/loss.h"
#include "trireme/nn/views.h"

#include "tests/nn/compare_runs.h"
#include "tests/nn/reference.h"

namespace trireme {
namespace {

TEST(Collectives, SplitThenGatherColumnsEqualsOneRank) {
  std::vector<float> target = random_floats("target", 5 * 24);
  RunOptions options{.inputs = {{"target", tensor_of(target, {5, 24})}}};
  const auto trace = [](Graph& g) {
    const Value x = g.parameter("x", {5, 24}, replicated(), normal(1));
    const Value y = gather_columns(gelu_erf(split_columns(x)), 24);
    return squared_error(x + y, g.input("target", {5, 24}));
  };
  const GraphRun one = run_graph(trace, options);
  for (const int ranks : {2, 3, 4}) {
    options.tensor_size = ranks;
    const GraphRun run = run_graph(trace, options);
    EXPECT_EQ(run.loss, one.loss) << ranks;
    EXPECT_LT(difference(run, one).gradients, 1e-7) << ranks;
  }
}

TEST(Collectives, GatherColumnsDropsPadding) {
  std::vector<float> target = random_floats("target", 5 * 7);
  const RunOptions options{.inputs = {{"target", tensor_of(target, {5, 7})}}};
  const auto trace = [](Graph& g) {  // a table of 7 rows, padded to 8 or 9: so are the columns of y
    const Value x = g.parameter("x", {5, 4}, replicated(), normal(1));
    const Value table = g.parameter("table", {7, 4}, shard_padded(0), normal(1));
    const Value y = linear(enter_region(x), table);
    return squared_error(gather_columns(y, 7), g.input("target", {5, 7}));
  };
  expect_tensor_ranks_agree(trace, options, 1e-6);
}

TEST(Collectives, TraceToNothingOnOneRank) {
  Graph g;
  const Value x = g.input("x", {4, 6});
  for (const Value y :
       {enter(x), leave(x), gather_rows(x), scatter_rows(x), split_columns(x), gather_columns(x, 6),
        enter_region(x), leave_region(x, SequenceParallel::on)})
    EXPECT_EQ(y.id(), x.id());
  EXPECT_TRUE(g.nodes().empty());
}

TEST(Collectives, MisplacedValuesAreRejectedWhileTracing) {
  Graph g(0, 2);
  const Value whole = g.input("x", {4, 6});
  EXPECT_THROW(leave(whole), Error);
  EXPECT_THROW(gather_rows(whole), Error);
  EXPECT_THROW(scatter_rows(whole), Error);
  EXPECT_THROW(gather_columns(whole, 6), Error);
  EXPECT_THROW(enter(enter(whole)), Error);
  EXPECT_THROW(split_columns(g.input("y", {4, 5})), Error);
}

TEST(Views, BackwardMatchesFiniteDifference) {
  EXPECT_LT(gradient_check(
                [](Graph&, const Values& in) {
                  const Value left = contiguous(slice(in[0], 1, 0, 4));
                  const Value right = contiguous(slice(in[0], 1, 3, 7));  // column 3 is in both
                  return reshape(left + right, {5, 12});
                },
                {{Spec({15, 7})}}, *open_cpu()),
            1e-4);
}

TEST(Add, BackwardMatchesFiniteDifference) {
  EXPECT_LT(gradient_check([](Graph&, const Values& in) { return in[0] + in[1] + in[0]; },
                           {{Spec({7, 31})}, {Spec({7, 31})}}, *open_cpu()),
            1e-4);
}

TEST(BiasAdd, BackwardMatchesFiniteDifference) {
  for (const bool parameter : {false, true})
    EXPECT_LT(gradient_check([](Graph&, const Values& in) { return bias_add(in[0], in[1]); },
                             {{Spec({7, 31})}, {Spec({31}), -1, 1, parameter}}, *open_cpu()),
              1e-4);
}

}  // namespace
}  // namespace trireme
