// GELU as a part of the products beside it: on CPUs the same bits as the three ops one after the
// other, in less memory.
#include <gtest/gtest.h>

#include "trireme/nn/nn.h"

#include "tests/nn/compare_runs.h"
#include "tests/nn/reference.h"

namespace trireme {
namespace {

constexpr Index rows = 24, mlp_width = 12, wide = 48;

enum class MlpForm { unfused, second_only, fused };
enum class Again { nothing, activation, all };  // what is recomputed

struct Layout {
  SequenceParallel sequence = SequenceParallel::off;
  Bias bias = Bias::zeros;
  Again again = Again::nothing;
};

Value mlp(Graph& g, MlpForm form, const Layout& layout) {
  const bool split = layout.sequence == SequenceParallel::on && g.tensor_size() > 1;
  Value x = g.parameter("x", {rows, mlp_width}, split ? shard(0) : replicated(), normal(1));
  x = layer_norm(x, "norm");
  const LinearOptions up{layout.bias, normal(0.5f)}, down{layout.bias, normal(0.3f)};
  if (form == MlpForm::fused) return gelu_mlp(x, {"up", wide}, up, {"down", mlp_width}, down);
  const Value h = column_linear(x, "up", wide, up);
  const auto second = [&] {
    return form == MlpForm::second_only ? gelu_row_linear(h, "down", mlp_width, down)
                                        : row_linear(gelu_tanh(h), "down", mlp_width, down);
  };
  return layout.again == Again::activation ? g.recompute(second) : second();
}

Value loss(Graph& g, MlpForm form, const Layout& layout) {
  const auto build = [&] { return mlp(g, form, layout); };
  const Value y = layout.again == Again::all ? g.recompute(build) : build();
  return squared_error(y, g.input("target", {rows, mlp_width}));
}

void expect_same_bits(const GraphRun& a, const GraphRun& b) {
  EXPECT_EQ(a.loss, b.loss);
  ASSERT_EQ(a.gradients.size(), b.gradients.size());
  for (const auto& [name, gradient] : a.gradients)
    EXPECT_TRUE(gradient == b.gradients.at(name)) << name;
}

TEST(GeluMlp, HasTheBitsOfItsUnfusedForm) {
  std::vector<float> target = random_floats("target", rows * mlp_width);
  for (const DType compute : {DType::f32, DType::bf16})
    for (const Bias bias : {Bias::none, Bias::zeros})
      for (const SequenceParallel sequence : {SequenceParallel::off, SequenceParallel::on})
        for (const int ranks : {1, 2, 3})
          for (const Again again : {Again::nothing, Again::activation, Again::all})
            for (const PlanOptions::Backward backward :
                 {PlanOptions::Backward::whole, PlanOptions::Backward::split}) {
              SCOPED_TRACE(str(compute, " ranks ", ranks, " again ", static_cast<int>(again)));
              const Layout layout{sequence, bias, again};
              RunOptions options{.tensor_size = ranks,
                                 .inputs = {{"target", tensor_of(target, {rows, mlp_width})}},
                                 .threads = ranks == 1 ? 2 : 1,
                                 .compute = compute};
              options.plan.backward = backward;
              const auto run = [&](MlpForm form) {
                return run_graph([&](Graph& g) { return loss(g, form, layout); }, options);
              };
              const GraphRun unfused = run(MlpForm::unfused);
              expect_same_bits(run(MlpForm::second_only), unfused);
              if (again != Again::activation) expect_same_bits(run(MlpForm::fused), unfused);
            }
}

/// h is read besides: its gradient is a sum of two, one of which a product with an epilogue can
/// only assign.
TEST(GeluMlp, GradientsThatMeetAreAdded) {
  const auto trace = [](MlpForm form) {
    return [form](Graph& g) {
      const Value x = g.parameter("x", {rows, mlp_width}, replicated(), normal(1));
      const Value h = linear(x, "up", mlp_width);
      const Value y = form == MlpForm::unfused ? row_linear(gelu_tanh(h), "down", mlp_width)
                                               : gelu_row_linear(h, "down", mlp_width);
      return squared_error(h + y, rms_norm(h, "norm"));
    };
  };
  const Difference d = difference(run_graph(trace(MlpForm::second_only), {}),
                                  run_graph(trace(MlpForm::unfused), {}));
  EXPECT_EQ(d.loss, 0);
  EXPECT_LT(d.gradients, 1e-6) << d.worst;
}

PlanBytes bytes_of(MlpForm form, Again again) {
  Graph g;
  const Value result = loss(g, form, {.again = again});
  return Plan(g, {result}, cut_stages(g, {result}, 1), 0).bytes();
}

/// What is kept is the same; backward has one array of rows * wide less, since the gradient of h
/// lies over gelu(h).
TEST(GeluMlp, TakesOneArrayLessThanItsUnfusedForm) {
  constexpr Index alignment = 256, array = rows * wide * static_cast<Index>(sizeof(float));
  for (const Again again : {Again::nothing, Again::activation, Again::all}) {
    const PlanBytes unfused = bytes_of(MlpForm::unfused, again);
    for (const MlpForm form : {MlpForm::second_only, MlpForm::fused}) {
      if (form == MlpForm::fused && again == Again::activation) continue;
      const PlanBytes fused = bytes_of(form, again);
      EXPECT_EQ(fused.slot, unfused.slot) << static_cast<int>(again);
      EXPECT_LE(fused.scratch, unfused.scratch - array + alignment) << static_cast<int>(again);
    }
  }
}

}  // namespace
}  // namespace trireme
