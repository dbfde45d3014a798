// Stages: the cut, what crosses it, and the transfer regions, by hand and under a transport that
// delays and reorders.
#include <algorithm>
#include <numeric>
#include <tuple>

#include <gtest/gtest.h>

#include "tests/graph/random_graph.h"
#include "tests/graph/runner.h"

namespace trireme::test {
namespace {

Value linear(Value x, Index out, const std::string& name) {
  return apply<Linear>(
      {x, x.graph().parameter(name, {out, x.shape()[1]}, replicated(), normal(1))});
}

/// Four blocks; `body` makes block i of the value before it.
template <class Body>
Value four_blocks(Graph& g, Body body) {
  const Value x = g.input("x", {4, 6}), y = g.input("y", {4, 6});
  Value h = linear(x, 6, "in");
  for (int i = 0; i < 4; ++i) h = g.block("block", i, [&] { return body(i, h); });
  return apply<SquaredError>({h, y});
}

// The first value is used by every block, so it is relayed, and its gradient gathers on the way
// back.
Value skip(Graph& g) {
  Value first;
  return four_blocks(g, [&](int i, Value h) {
    if (i == 0) first = h = apply<Tanh>({linear(h, 6, "w")});
    return apply<Add>({apply<Tanh>({linear(h, 6, "v")}), first});
  });
}
// Slices of a value of the first block are used in the others: the root crosses, not the views.
Value strided_view(Graph& g) {
  Value wide;
  return four_blocks(g, [&](int i, Value h) {
    if (i == 0) wide = linear(h, 18, "w");
    const Value part = apply<Slice>({wide}, 1, Index{4} * i, Index{4} * i + 6);
    return apply<Tanh>({apply<Mix>({h, h, part})});
  });
}
// One parameter is used by the first and by the last block.
Value tied(Graph& g) {
  const Value w = g.parameter("tied", {6, 6}, replicated(), normal(1));
  return four_blocks(g, [&](int i, Value h) {
    return i % 3 == 0 ? apply<Tanh>({apply<Linear>({h, w})}) : linear(h, 6, "w");
  });
}
// A table is made on every stage that reads it; tokens are loaded where they are used.
Value table(Graph& g) {
  const Value tokens = g.input("tokens", Spec({4}, DType::i32));
  const Value angles = g.apply(std::make_shared<Table>(Shape{4, 6}), {}).front();
  return four_blocks(g, [&](int i, Value h) {
    const Value rows = apply<Rows>({tokens, g.parameter("rows", {4, 6}, replicated(), normal(1))});
    return apply<Tanh>({apply<Mix>({h, i % 2 == 0 ? angles : rows, rows})});
  });
}
// All of it in one recompute scope that spans the cuts, with others inside.
Value recomputed(Graph& g) {
  return four_blocks(g, [&](int i, Value h) {
    return g.recompute([&] {
      const Value a = apply<Tanh>({linear(h, 6, "w")});
      return apply<Add>({h, g.recompute([&] {
                           return apply<Mul>({a, apply<Tanh>({linear(a, 6, str("v", i))})});
                         })});
    });
  });
}
using Model = Value (*)(Graph&);
const std::vector<std::pair<const char*, Model>> models = {{"skip", skip},
                                                           {"strided_view", strided_view},
                                                           {"tied", tied},
                                                           {"table", table},
                                                           {"recomputed", recomputed}};

void expect_close(const RunResult& result, const RunResult& expected) {
  EXPECT_EQ(result.losses, expected.losses);
  for (std::size_t p = 0; p < expected.gradients.size(); ++p)
    for (std::size_t i = 0; i < expected.gradients[p].size(); ++i)
      EXPECT_NEAR(result.gradients[p][i], expected.gradients[p][i], 1e-5) << p << ' ' << i;
}

TEST(Stages, GradientsAreThoseOfOneStage) {
  for (const auto& [name, model] : models)
    for (const int stages : {2, 3, 4}) {
      SCOPED_TRACE(str(name, " on ", stages, " stages"));
      Graph g;
      const Value loss = model(g);
      const RunResult one = run(g, loss);
      EXPECT_LT(directional_error(g, loss, one), 1e-3);
      PlanOptions options;
      options.poison = true;
      expect_close(run(g, loss, {.stages = stages, .plan = options}), one);
    }
}

TEST(Stages, ASkipIsRelayedAsOneRoot) {
  Graph g;
  const Value loss = skip(g);
  const StageCut cut = cut_stages(g, {loss}, 4);
  const Plan second(g, {loss}, cut, 1);
  EXPECT_EQ(second.receive_values().names.size(), 2u);  // the skip, and what block 0 gave
  EXPECT_EQ(second.send_values().names.size(), 2u);
  EXPECT_EQ(second.receive_gradients().names.size(), 2u);
  EXPECT_EQ(second.send_gradients().names.size(), 2u);
}

TEST(Stages, ConstantsInputsAndParametersDoNotCross) {
  Graph g;
  const Value loss = table(g);
  const StageCut cut = cut_stages(g, {loss}, 4);
  for (int s = 1; s < 4; ++s) {
    const Plan plan(g, {loss}, cut, s);
    EXPECT_EQ(plan.receive_values().names.size(), 1u) << "only what the block before gave";
    EXPECT_EQ(plan.inputs().size(), s == 3 ? 2u : 1u);
  }
}

TEST(Stages, ATiedParameterHasTwoHoldersAndIsOwnedByTheFirst) {
  Graph g;
  const Value loss = tied(g);
  const StageCut cut = cut_stages(g, {loss}, 4);
  EXPECT_EQ(cut.holders[0], (std::set<int>{0, 3}));
  EXPECT_EQ(cut.holders[2], (std::set<int>{1}));
}

TEST(StageCut, BalancesCostOverSpeed) {
  Graph g;
  const Value x = g.input("x", {4, 8});
  Value h = x;
  for (int i = 0; i < 8; ++i) h = g.block("block", i, [&] { return linear(h, 8, "w"); });
  const auto blocks_of = [&](const std::vector<double>& speeds) {
    std::vector<int> count(speeds.size());
    const StageCut cut = cut_stages(g, {h}, static_cast<int>(speeds.size()), speeds);
    for (const int stage : cut.stage_of_node) ++count[static_cast<std::size_t>(stage)];
    return count;
  };
  EXPECT_EQ(blocks_of({1, 1}), (std::vector<int>{4, 4}));
  EXPECT_EQ(blocks_of({1, 3}), (std::vector<int>{2, 6}));
  std::vector<int> three = blocks_of({1, 1, 1});
  std::sort(three.begin(), three.end());
  EXPECT_EQ(three, (std::vector<int>{2, 3, 3}));
  EXPECT_EQ(blocks_of({1, 1, 1, 1, 1, 1, 1, 1}), std::vector<int>(8, 1));
}

// All cuts of nine blocks into four stages: least time of the slowest stage, then least sum of
// squares, then the earliest cuts, the last one first.
TEST(StageCut, IsTheBestOfAllAndTheEarliestOfEquals) {
  for (unsigned seed = 0; seed < 20; ++seed) {
    Graph g;
    Value h = g.input("x", {4, 8});
    constexpr int blocks = 9;
    for (int i = 0; i < blocks; ++i)
      h = g.block("block", i, [&] {
        Value inner = h;
        const unsigned layers = 1 + (seed * 7 + static_cast<unsigned>(i * i) * (seed + 3)) % 4;
        for (unsigned layer = 0; layer < layers; ++layer) inner = linear(inner, 8, str("w", layer));
        return inner;
      });
    const std::vector<double> cost = cut_stages(g, {h}, blocks).cost;
    std::tuple<double, double, int, int, int> best{1e300, 0, 0, 0, 0};
    for (int a = 1; a < blocks - 2; ++a)
      for (int b = a + 1; b < blocks - 1; ++b)
        for (int c = b + 1; c < blocks; ++c) {
          const int begins[] = {0, a, b, c, blocks};
          double most = 0, squares = 0;
          for (int s = 0; s < 4; ++s) {
            const double time =
                std::accumulate(cost.begin() + begins[s], cost.begin() + begins[s + 1], 0.0);
            most = std::max(most, time);
            squares += time * time;
          }
          best = std::min(best, {most, squares, c, b, a});
        }
    const auto [most, squares, c, b, a] = best;
    const StageCut cut = cut_stages(g, {h}, 4);
    EXPECT_EQ(*std::max_element(cut.cost.begin(), cut.cost.end()), most) << "seed " << seed;
    std::vector<int> begins(4, -1);
    for (const Node& node : g.nodes()) {
      int& begin =
          begins[static_cast<std::size_t>(cut.stage_of_node[static_cast<std::size_t>(node.id)])];
      if (begin < 0) begin = node.block;
    }
    EXPECT_EQ(begins, (std::vector<int>{0, a, b, c})) << "seed " << seed;
  }
}

TEST(StageCut, WhatIsOutsideOfBlocksCountsForItsNeighbour) {
  Graph g;
  Value h = g.input("x", {4, 8});
  for (int i = 0; i < 4; ++i) h = g.block("block", i, [&] { return linear(h, 8, "w"); });
  h = linear(h, 24, "head");  // as much as three blocks
  const StageCut cut = cut_stages(g, {h}, 2);
  EXPECT_EQ(cut.stage_of_node, (std::vector<int>{0, 0, 0, 1, 1}));
  EXPECT_DOUBLE_EQ(cut.cost[1] / cut.cost[0], 4.0 / 3);
}

// Rule 8. What is sent stays as it is until the slot is used again, and what arrives early is not
// touched.
TEST(Transfers, RegionsBelongToTheTransportForTheWholeProgram) {
  for (unsigned seed = 0; seed < 12; ++seed) {
    const RandomGraph random(seed);
    const StageCut cut = cut_stages(random.graph, {random.loss}, 3);
    const auto mesh = make_self_mesh();
    PlanOptions options;
    options.poison = true;
    const auto values = initial_parameters(random.graph);
    Stage a(random.graph, {random.loss}, cut, 1, options, values, *mesh);
    const InputData data(random.graph, 0);
    const MicroBatch batch{.inputs = data.tensors()};
    const auto bytes = [&](const Transfer& t) {
      const std::byte* begin = a.executor->transfer(0, t);
      return std::vector<std::byte>(begin, begin + t.bytes);
    };
    const auto fill = [&](const Transfer& t) {
      std::byte* begin = a.executor->transfer(0, t);
      for (Index i = 0; i < t.bytes / 4; ++i) {
        const float x = number(99, i);
        std::memcpy(begin + 4 * i, &x, 4);
      }
    };
    fill(a.plan.receive_values());
    fill(a.plan.receive_gradients());  // early: before forward
    const auto early = bytes(a.plan.receive_gradients());
    a.executor->forward(0, batch);
    EXPECT_EQ(bytes(a.plan.receive_gradients()), early);
    const auto sent = bytes(a.plan.send_values()), received = bytes(a.plan.receive_values());
    a.executor->backward(0, batch);
    EXPECT_EQ(bytes(a.plan.send_values()), sent);
    EXPECT_EQ(bytes(a.plan.receive_values()), received);
    const auto sent_gradients = bytes(a.plan.send_gradients());
    a.executor->forward(0, batch);
    EXPECT_EQ(bytes(a.plan.send_gradients()), sent_gradients);
  }
}

/// GPipe over the pipeline axis: all receives are posted first, sends are waited for last.
std::vector<std::vector<float>> pipeline(Mesh& mesh, const Graph& g, const Value& loss,
                                         int micro_batches, std::vector<int>& parameters,
                                         std::vector<double>& losses) {
  Communicator& axis = mesh.axis(Axis::pipeline);
  const int stage = axis.rank(), stages = axis.size();
  PlanOptions options;
  options.poison = true;
  Stage s(g, {loss}, cut_stages(g, {loss}, stages), stage, options, initial_parameters(g), mesh,
          micro_batches);
  s.scalars.write({.loss_scale = 0.25});
  std::vector<InputData> data;
  for (int m = 0; m < micro_batches; ++m) data.emplace_back(g, m);
  const auto message = [&](int m, int peer, const Transfer& t) {
    return Message{peer, s.executor->transfer(m, t), t.bytes};
  };
  const auto start = [&](int m, int peer, const Transfer& t, bool send) {
    if (peer < 0 || peer >= stages) return Ticket{};
    const Message one[] = {message(m, peer, t)};
    const std::span<const Message> none, some(one);
    return axis.start_exchange(send ? some : none, send ? none : some, s.stream);
  };
  std::vector<Ticket> values, gradients, sends;
  for (int m = 0; m < micro_batches; ++m)
    values.push_back(start(m, stage - 1, s.plan.receive_values(), false));
  for (int m = 0; m < micro_batches; ++m)
    gradients.push_back(start(m, stage + 1, s.plan.receive_gradients(), false));
  const auto batch = [&](int m) {
    return MicroBatch{.number = m,
                      .last = m + 1 == micro_batches,
                      .inputs = data[static_cast<std::size_t>(m)].tensors()};
  };
  for (int m = 0; m < micro_batches; ++m) {
    axis.wait(values[static_cast<std::size_t>(m)], s.stream);
    s.executor->forward(m, batch(m));
    sends.push_back(start(m, stage + 1, s.plan.send_values(), true));
  }
  for (int m = 0; m < micro_batches; ++m) {
    axis.wait(gradients[static_cast<std::size_t>(m)], s.stream);
    s.executor->backward(m, batch(m));
    if (stage + 1 == stages) losses.push_back(*s.executor->result(m).as<double>());
    sends.push_back(start(m, stage - 1, s.plan.send_gradients(), true));
  }
  for (const Ticket ticket : sends) axis.wait(ticket, s.stream);
  parameters = s.plan.parameters();
  return s.gradients;
}

TEST(Transfers, SurviveATransportThatDelaysAndReorders) {
  constexpr int stages = 4, micro_batches = 3;
  for (const auto& [name, model] : models)
    for (const std::uint64_t seed : {1u, 2u, 3u}) {
      SCOPED_TRACE(str(name, ", transport seed ", seed));
      std::vector<std::vector<std::vector<float>>> gradients(stages);
      std::vector<std::vector<int>> parameters(stages);
      std::vector<double> losses;
      run_on_threads(MeshShape(1, stages, 1),
                     [&, model = model](Mesh& mesh) {
                       Graph g;
                       const Value loss = model(g);
                       const auto s = static_cast<std::size_t>(mesh.coordinate(Axis::pipeline));
                       std::vector<double> ignored;
                       gradients[s] = pipeline(mesh, g, loss, micro_batches, parameters[s],
                                               s + 1 == stages ? losses : ignored);
                     },
                     {.hostile_seed = seed});
      Graph g;
      const Value loss = model(g);
      RunResult sum{losses, {}, {}};
      for (const Parameter& p : g.parameters())
        sum.gradients.emplace_back(p.spec.shape.count(), 0.0f);
      for (std::size_t s = 0; s < stages; ++s)
        for (std::size_t p = 0; p < parameters[s].size(); ++p)
          for (std::size_t i = 0; i < gradients[s][p].size(); ++i)
            sum.gradients[static_cast<std::size_t>(parameters[s][p])][i] += gradients[s][p][i];
      expect_close(sum, run(g, loss, {.micro_batches = micro_batches}));
    }
}

}  // namespace
}  // namespace trireme::test
