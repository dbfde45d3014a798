// Embeddings against plain look-ups, finite differences, and themselves on one rank.
#include "trireme/nn/embedding.h"

#include <gtest/gtest.h>

#include "trireme/graph/gradient_check.h"
#include "trireme/nn/linear.h"
#include "trireme/nn/loss.h"

#include "tests/nn/compare_runs.h"
#include "tests/nn/reference.h"

namespace trireme {
namespace {

TEST(Embedding, PicksRowsAndAddsPositions) {
  constexpr Index batch = 2, sequence = 3, channels = 5, vocabulary = 7;
  std::vector<std::int32_t> tokens = random_tokens("tokens", batch * sequence, vocabulary);
  std::vector<float> table = random_floats("table", vocabulary * channels),
                     positions = random_floats("positions", 4 * channels);
  RunOptions options{.inputs = {{"tokens", tensor_of(tokens, {batch, sequence})},
                                {"table", tensor_of(table, {vocabulary, channels})},
                                {"positions", tensor_of(positions, {4, channels})}}};
  options.plan.mode = PlanOptions::Mode::forward_only;
  const GraphRun run = run_graph(
      [&](Graph& g) {
        const Value x = embedding(g.input("tokens", Spec({batch, sequence}, DType::i32)),
                                  g.input("table", {vocabulary, channels}));
        return add_positions(x, g.input("positions", {4, channels}), sequence);
      },
      options);
  for (Index r = 0; r < batch * sequence; ++r)
    for (Index c = 0; c < channels; ++c)
      EXPECT_EQ(run.result[std::size_t(r * channels + c)],
                table[std::size_t(tokens[std::size_t(r)] * channels + c)] +
                    positions[std::size_t(r % sequence * channels + c)]);
}

TEST(Embedding, BackwardMatchesFiniteDifference) {
  EXPECT_LT(gradient_check([](Graph&, const Values& in) { return embedding(in[0], in[1]); },
                           {{Spec({3, 7}, DType::i32), 0, 11}, {Spec({11, 5}), -1, 1, true}},
                           *open_cpu()),
            1e-4);
}

TEST(Positions, BackwardMatchesFiniteDifference) {
  EXPECT_LT(gradient_check([](Graph&, const Values& in) { return add_positions(in[0], in[1], 3); },
                           {{Spec({9, 5})}, {Spec({4, 5}), -1, 1, true}}, *open_cpu()),
            1e-4);
}

TEST(Embedding, VocabularyParallelEqualsOneRank) {
  constexpr Index batch = 2, sequence = 12, vocabulary = 13,
                  width = 12;  // 13: padded on 2, 3 and 4
  std::vector<std::int32_t> tokens = random_tokens("tokens", batch * sequence, vocabulary);
  std::vector<float> target = random_floats("target", batch * sequence * width);
  const RunOptions options{.inputs = {{"tokens", tensor_of(tokens, {batch, sequence})},
                                      {"target", tensor_of(target, {batch * sequence, width})}}};
  for (const SequenceParallel parallel : {SequenceParallel::off, SequenceParallel::on}) {
    const auto trace = [&](Graph& g) {
      const Value table = g.parameter("table", {vocabulary, width}, shard_padded(0), normal(1));
      const Value positions = g.parameter("positions", {14, width}, replicated(), normal(1));
      const Value x = add_positions(
          embedding(g.input("tokens", Spec({batch, sequence}, DType::i32)), table, parallel),
          positions, sequence);
      const Value y = row_linear(column_linear(x, "up", 24), "down", width);
      return squared_error(y, g.input("target", {batch * sequence, width}));
    };
    expect_tensor_ranks_agree(trace, options, 2e-6);
  }
}

}  // namespace
}  // namespace trireme
