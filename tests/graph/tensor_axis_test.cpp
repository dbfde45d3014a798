// The tensor axis: shards, entries and exits, and gradients that are one term of a sum. Each fault
// is planted once.
#include <gtest/gtest.h>

#include "tests/graph/runner.h"
#include "tests/support/finite_or_huge.h"

namespace trireme::test {
namespace {

enum class DroppedSum { none, dropped_all_reduce, dropped_sum_of_terms };

/// Enter without its all-reduce in backward.
class LeakyEnter final : public Op {
 public:
  std::string name() const override { return "enter"; }
  Outputs infer(const Specs& in) const override { return {Output::identity(0, in[0])}; }
  Placement placement(const Placements&, const std::vector<bool>&) const override {
    return Placement::partial_gradient;
  }
  void forward(Exec&) const override {}
  void backward(Exec& e) const override { e.stream().copy(e.grad_input(0), e.grad_output(0)); }
};

/// x (rows, n/size) times w (out, n/size): one term of the product.
class RowLinear final : public Op {
 public:
  std::string name() const override { return "row_linear"; }
  Outputs infer(const Specs& in) const override { return op_.infer(in); }
  Saved saved(const BackwardWork& work) const override { return op_.saved(work); }
  bool accumulates(int i) const override { return op_.accumulates(i); }
  Placement placement(const Placements& in, const std::vector<bool>&) const override {
    require(in[0] == Placement::sharded && in[1] == Placement::sharded,
            "x and w have to be sharded");
    return Placement::partial;
  }
  void forward(Exec& e) const override { op_.forward(e); }
  void backward(Exec& e) const override { op_.backward(e); }

 private:
  Linear op_;
};

// Norms before and inside of a split pair of matrices; the inner norm's scale is whole on split
// values (QK-norm).
Value model(Graph& g, DroppedSum fault = DroppedSum::none) {
  const Value x = g.input("x", {4, 6}), y = g.input("y", {4, 6});
  Value h = apply<Linear>({x, g.parameter("in", {6, 6}, replicated(), normal(1))});
  Value first;  // entered in one block and used in both: what crosses the cut is its value, and its
                // own gradient
  for (int i = 0; i < 2; ++i)
    h = g.block("block", i, [&] {
      Value a = apply<RmsNorm>({h, g.parameter("norm", {6}, replicated(), ones())});
      a = fault == DroppedSum::dropped_all_reduce ? apply<LeakyEnter>({a}) : apply<Enter>({a});
      if (i == 0) first = a;
      // Used twice after entering: its own gradient gathers before the one all-reduce.
      a = apply<Mul>({apply<Linear>({a, g.parameter("up", {8, 6}, shard(0), normal(1))}),
                      apply<Linear>({first, g.parameter("gate", {8, 6}, shard(0), normal(1))})});
      const Value rows = a.apply<Reshape>(Shape{4 * a.shape()[1] / 4, 4});
      a = apply<RmsNorm>({rows, g.parameter("inner", {4}, replicated(), ones())})
              .apply<Reshape>(a.shape());
      a = apply<RowLinear>({a, g.parameter("down", {6, 8}, shard(1), normal(1))});
      return apply<Add>({h, a.apply<Leave>()});
    });
  return apply<SquaredError>({h, y});
}

/// The logical value of every parameter, cut to what this rank holds.
ParameterValues local(const Graph& g, const Graph& whole) {
  const ParameterValues all = initial_parameters(whole);
  ParameterValues out;
  for (const Parameter& p : g.parameters()) {
    const ParameterPart& part = p.parts[0];
    auto& values = out.emplace_back();
    const Shape strides = part.global.packed_strides();
    for_each(part.box.size, strides, strides, [&](Index i, Index) {
      Index start = 0;
      for (int d = 0; d < part.global.dims(); ++d) start += part.box.begin[d] * strides[d];
      values.push_back(all[static_cast<std::size_t>(p.id)][static_cast<std::size_t>(start + i)]);
    });
  }
  return out;
}

/// The logical gradients of `size` tensor ranks over `stages` stages, gathered; sums of terms as
/// the plan says.
ParameterValues gradients(int size, int stages, DroppedSum fault = DroppedSum::none) {
  Graph whole;
  model(whole);
  ParameterValues gathered;
  for (const Parameter& p : whole.parameters()) gathered.emplace_back(p.spec.shape.count(), 0.0f);
  std::mutex mutex;
  run_on_threads(MeshShape(1, stages, size), [&](Mesh& mesh) {
    Communicator& tensor = mesh.axis(Axis::tensor);
    Communicator& pipeline = mesh.axis(Axis::pipeline);
    Graph g(tensor.rank(), size);
    const Value loss = model(g, fault);
    PlanOptions options;
    options.poison = true;
    Stage s(g, {loss}, cut_stages(g, {loss}, stages), pipeline.rank(), options, local(g, whole),
            mesh);
    const InputData data(g, 0);
    const MicroBatch batch{.last = true, .inputs = data.tensors()};
    const auto pass = [&](const Transfer& t, int peer, bool send) {
      if (t.bytes == 0) return;
      const Message one[] = {{peer, s.executor->transfer(0, t), t.bytes}};
      const std::span<const Message> none, some(one);
      pipeline.exchange(send ? some : none, send ? none : some, s.stream);
    };
    pass(s.plan.receive_values(), pipeline.rank() - 1, false);
    s.executor->forward(0, batch);
    pass(s.plan.send_values(), pipeline.rank() + 1, true);
    pass(s.plan.receive_gradients(), pipeline.rank() + 1, false);
    s.executor->backward(0, batch);
    pass(s.plan.send_gradients(), pipeline.rank() - 1, true);
    for (std::size_t i = 0; i < s.gradients.size(); ++i) {
      auto& gradient = s.gradients[i];
      if (s.plan.sums_over_tensor()[i] && fault != DroppedSum::dropped_sum_of_terms)
        tensor.all_reduce({gradient.data(), static_cast<Index>(gradient.size()), DType::f32},
                          Reduction::sum, s.stream);
      const Parameter& p = g.parameters()[static_cast<std::size_t>(s.plan.parameters()[i])];
      const ParameterPart& part = p.parts[0];
      const std::lock_guard lock(mutex);
      const Shape strides = part.global.packed_strides();
      Index start = 0, k = 0;
      for (int d = 0; d < part.global.dims(); ++d) start += part.box.begin[d] * strides[d];
      for_each(part.box.size, strides, strides, [&](Index at, Index) {
        gathered[static_cast<std::size_t>(p.id)][static_cast<std::size_t>(start + at)] =
            gradient[static_cast<std::size_t>(k++)];
      });
    }
  });
  return gathered;
}

double difference(const ParameterValues& a, const ParameterValues& b) {
  double worst = 0;
  for (std::size_t p = 0; p < a.size(); ++p) {
    double squares = 0, norm = 0;
    for (std::size_t i = 0; i < a[p].size(); ++i) {
      squares += std::pow(a[p][i] - b[p][i], 2);
      norm += std::pow(b[p][i], 2);
    }
    worst = std::max(worst, test::finite_or_huge(std::sqrt(squares / norm)));
  }
  return worst;
}

TEST(TensorAxis, ShardsHaveTheGradientsOfOneRank) {
  const ParameterValues one = gradients(1, 1);
  EXPECT_LT(difference(gradients(2, 1), one), 1e-5);
  EXPECT_LT(difference(gradients(1, 2), one), 1e-5);
  EXPECT_LT(difference(gradients(2, 2), one), 1e-5);
}

TEST(TensorAxis, ADroppedAllReduceOnEntryIsSeen) {
  EXPECT_GT(difference(gradients(2, 1, DroppedSum::dropped_all_reduce), gradients(1, 1)), 0.05);
}

TEST(TensorAxis, ADroppedSumOfTermsIsSeen) {
  EXPECT_GT(difference(gradients(2, 1, DroppedSum::dropped_sum_of_terms), gradients(1, 1)), 0.05);
}

TEST(TensorAxis, OnlyWholeParametersOnEnteredOrSplitValuesAreSummed) {
  Graph g(0, 2);
  const Value loss = model(g);
  const Plan plan(g, {loss}, cut_stages(g, {loss}, 1), 0);
  for (std::size_t i = 0; i < plan.parameters().size(); ++i) {
    const std::string& name = g.parameters()[static_cast<std::size_t>(plan.parameters()[i])].name();
    EXPECT_EQ(plan.sums_over_tensor()[i], name.find("inner") != std::string::npos) << name;
  }
}

}  // namespace
}  // namespace trireme::test
