// Every op of the module in bf16 against the same op in f32 on the same (rounded) inputs. One
// rounding to bf16 is off by at most u = 2^-8 of the number, so a result or a gradient that is
// rounded n times on its way is off by at most n u of its norm; what is added up in f32 (gradients
// of weights) by f32's own rounding alone, where nothing before it was rounded.
#include <gtest/gtest.h>

#include "trireme/nn/nn.h"

#include "tests/nn/compare_runs.h"
#include "tests/nn/reference.h"

namespace trireme {
namespace {

constexpr double u = 0x1p-8;
constexpr double f32_noise = 2e-6;

/// A linear function in f64 with weights that bf16 holds exactly: its gradient is not rounded.
class WeightedSum final : public Op {
 public:
  std::string name() const override { return "weighted_sum"; }
  Outputs infer(const Specs&) const override { return {Spec(Shape{}, DType::f64)}; }
  bool works_in(DType) const override { return true; }
  void forward(Exec& e) const override {
    double sum = 0;
    const std::vector<float> x = run_graph_detail::floats_of(e.input(0));
    for (std::size_t i = 0; i < x.size(); ++i) sum += static_cast<double>(x[i]) * weight(i);
    *e.output(0).as<double>() = sum;
  }
  void backward(Exec& e) const override {
    const Tensor& dx = e.grad_input(0);
    for (std::size_t i = 0; i < static_cast<std::size_t>(dx.count()); ++i)
      if (dx.dtype == DType::bf16)
        dx.as<Bf16>()[i] = to_bf16(weight(i));
      else
        dx.as<float>()[i] = weight(i);
  }

 private:
  static float weight(std::size_t i) {
    return static_cast<float>(Random{91}.bits(static_cast<Index>(i)) % 17) / 8 - 1;
  }
};

/// An op on parameters (which are exact in bf16). Activations are those whose name begins with x.
struct Case {
  std::function<Value(Graph&)> build;
  double result = 1;       // roundings on the way to the result
  double activations = 1;  // to a gradient of an activation
  double weights = 0;      // to a gradient of a weight
  int tensor_size = 1;
};

void check(const Case& c) {
  const auto loss = [&](Graph& g) { return c.build(g).apply<WeightedSum>(); };
  std::vector<std::int32_t> tokens = random_tokens("tokens", 24, 19);
  RunOptions options{.tensor_size = c.tensor_size,
                     .inputs = {{"tokens", tensor_of(tokens, {24})}},
                     .parameters = DType::bf16};
  const GraphRun wide = run_graph(loss, options);
  options.compute = DType::bf16;
  const GraphRun half = run_graph(loss, options);
  ASSERT_EQ(half.gradients.size(), wide.gradients.size());
  for (const auto& [name, gradient] : wide.gradients) {
    const double allowed = (name[0] == 'x' ? c.activations : c.weights) * u + f32_noise;
    EXPECT_LE(relative_error(half.gradients.at(name), gradient), allowed) << name;
  }
  options.plan.mode = PlanOptions::Mode::forward_only;
  const GraphRun half_result = run_graph(c.build, options);
  options.compute = DType::f32;
  const GraphRun wide_result = run_graph(c.build, options);
  EXPECT_LE(relative_error(half_result.result, wide_result.result), c.result * u + f32_noise);
  for (const float x : half_result.result) ASSERT_EQ(x, to_float(to_bf16(x)));  // it is in bf16
}

Value activation(Graph& g, const std::string& name, Shape shape) {
  return g.parameter("x." + name, shape, replicated(), normal(1));
}
Value weight(Graph& g, const std::string& name, Shape shape) {
  return g.parameter(name, shape, replicated(), normal(1));
}

TEST(MixedPrecision, PointwiseActivations) {
  for (Value (*f)(Value) : {gelu_tanh, gelu_erf, silu})
    check({[&](Graph& g) { return f(activation(g, "x", {7, 33})); }});
  check({[](Graph& g) { return swiglu(activation(g, "x", {7, 62})); }});
}

TEST(MixedPrecision, Additions) {
  // The gradients pass untouched.
  check({[](Graph& g) { return activation(g, "a", {5, 31}) + activation(g, "b", {5, 31}); }, 1, 0});
  check({[](Graph& g) {
           return bias_add(activation(g, "x", {29, 31}), weight(g, "bias", {31}));
         },
         1, 0});
}

TEST(MixedPrecision, Norms) {
  check({[](Graph& g) { return rms_norm(activation(g, "x", {9, 65}), "norm"); }});
  check({[](Graph& g) { return layer_norm(activation(g, "x", {9, 65}), "norm"); }});
  // Fused with the addition: the sum is rounded, the norm is that of the rounded sum or of the
  // exact one.
  for (const bool layer : {false, true})
    check({[&](Graph& g) {
             const Value x = activation(g, "x", {9, 64}), delta = activation(g, "delta", {9, 64});
             const auto [sum, normed] =
                 layer ? add_layer_norm(x, delta, "norm") : add_rms_norm(x, delta, "norm");
             return sum + normed;
           },
           4, 4, 2});
}

TEST(MixedPrecision, LinearLayers) {
  check({[](Graph& g) {
    return linear(activation(g, "x", {17, 33}), weight(g, "w", {31, 33}), weight(g, "b", {31}));
  }});
  // A weight that is used twice: its gradient adds up in f32.
  check({[](Graph& g) {
           const Value w = weight(g, "w", {33, 33});
           return linear(linear(activation(g, "x", {17, 33}), w), w);
         },
         2, 2, 1.5});
}

TEST(MixedPrecision, Embeddings) {
  check(
      {[](Graph& g) {
         return embedding(g.input("tokens", Spec({24}, DType::i32)), weight(g, "table", {19, 31}));
       },
       0});  // copied
  check({[](Graph& g) {
           return add_positions(activation(g, "x", {24, 31}), weight(g, "positions", {12, 31}), 12);
         },
         1, 0});
}

TEST(MixedPrecision, RotaryAndDropout) {
  const auto table = std::make_shared<const RotaryTable>(12, 8, 10000.0f);
  check({[&](Graph& g) { return rotary(activation(g, "x", {24, 40}), table, 4); }});
  check({[](Graph& g) { return dropout(activation(g, "x", {24, 40}), 0.3f, 12); }});
}

// Backward reads the rounded result (in the sum of dy y of a row); products may take rounded
// probabilities.
TEST(MixedPrecision, Attention) {
  check({[](Graph& g) {
           return causal_attention(activation(g, "qkv", {24, 4 * 32 + 2 * 2 * 32}), 12,
                                   {.query = 4, .kv = 2, .head_dim = 32});
         },
         2, 4});
}

TEST(MixedPrecision, Losses) {
  std::vector<std::int32_t> targets = random_tokens("targets", 24, 53);
  std::vector<float> values = random_floats("values", 24 * 60);
  RunOptions options{
      .inputs = {{"targets", tensor_of(targets, {24})}, {"values", tensor_of(values, {24, 60})}},
      .parameters = DType::bf16};
  for (float& value : values) value = to_float(to_bf16(value));
  for (const bool entropy : {true, false}) {
    const auto trace = [&](Graph& g) {
      const Value x = activation(g, "x", {24, 60});
      return entropy ? cross_entropy(x, g.input("targets", Spec({24}, DType::i32)), 53)
                     : squared_error(x, g.input("values", {24, 60}));
    };
    options.compute = DType::f32;
    const GraphRun wide = run_graph(trace, options);
    options.compute = DType::bf16;
    const Difference d = difference(run_graph(trace, options), wide);
    EXPECT_LE(d.loss, f32_noise);  // of exact inputs, in f32 and f64
    EXPECT_LE(d.gradients, u);
    EXPECT_GT(d.gradients, u / 100);  // it really is rounded
  }
}

// Terms are rounded before they are summed, the sum once more; gradients likewise.
TEST(MixedPrecision, TensorParallelLayers) {
  for (const SequenceParallel sequence : {SequenceParallel::off, SequenceParallel::on})
    check({[&](Graph& g) {
             const bool split = sequence == SequenceParallel::on && g.tensor_size() > 1;
             const Value x = g.parameter("x", {24, 16}, split ? shard(0) : replicated(), normal(1));
             const LinearOptions options{Bias::zeros, normal(0.3f), sequence};
             return row_linear(gelu_tanh(column_linear(x, "up", 32, options)), "down", 16,
                               {Bias::zeros, normal(0.3f), SequenceParallel::off});
           },
           5, 5, 4, 2});
}

}  // namespace
}  // namespace trireme
