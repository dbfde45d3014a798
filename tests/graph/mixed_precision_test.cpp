// Graphs that compute in bf16: which type every value and gradient has, and where the runtime
// converts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/graph/device_scalars.h"
#include "tests/graph/runner.h"

namespace trireme::test {
namespace {

using testing::HasSubstr;

/// y = x w, elementwise; w is a weight.
class Scaled final : public Elementwise {
 public:
  std::string name() const override { return "scaled"; }
  bool works_in(DType) const override { return true; }
  bool is_weight(int input) const override { return input == 1; }
  bool accumulates(int input) const override { return input == 1; }
  Saved saved(const BackwardWork&) const override { return Saved::input(0) | Saved::input(1); }
  void forward(Exec& e) const override {
    for (Index i = 0; i < e.output(0).count(); ++i)
      set_element(e.output(0), i, element(e.input(0), i) * element(e.input(1), i));
  }
  void backward(Exec& e) const override {
    const Tensor& dy = e.grad_output(0);
    if (e.wants(0)) require(e.grad_input(0).dtype == dy.dtype, "dx is ", e.grad_input(0).dtype);
    if (e.wants(1)) require(e.grad_input(1).dtype == DType::f32, "dw is ", e.grad_input(1).dtype);
    for (Index i = 0; i < dy.count(); ++i) {
      if (e.wants(0)) set_element(e.grad_input(0), i, element(dy, i) * element(e.input(1), i));
      if (e.wants(1))
        set_element(e.grad_input(1), i,
                    element(dy, i) * element(e.input(0), i) +
                        (e.accumulate(1) ? element(e.grad_input(1), i) : 0));
    }
  }
};

/// Both gradients pass.
class Plus final : public Elementwise {
 public:
  std::string name() const override { return "plus"; }
  bool works_in(DType) const override { return true; }
  Sharing sharing() const override {
    return Sharing().gradient_passes(0, 0).gradient_passes(1, 0).output_over_input(0, 0);
  }
  void forward(Exec& e) const override {
    for (Index i = 0; i < e.output(0).count(); ++i)
      set_element(e.output(0), i, element(e.input(0), i) + element(e.input(1), i));
  }
  void backward(Exec&) const override {}
};

/// The sum of all elements in f64.
class Total final : public Op {
 public:
  std::string name() const override { return "total"; }
  Outputs infer(const Specs&) const override { return {Spec(Shape{}, DType::f64)}; }
  bool works_in(DType) const override { return true; }
  void forward(Exec& e) const override {
    double sum = 0;
    for (Index i = 0; i < e.input(0).count(); ++i) sum += element(e.input(0), i);
    *e.output(0).as<double>() = sum;
  }
  void backward(Exec& e) const override {
    for (Index i = 0; i < e.grad_input(0).count(); ++i)
      set_element(e.grad_input(0), i, *e.grad_output(0).as<double>());
  }
};

Bf16 rounded(float x) { return to_bf16(x); }

/// One stage of a graph in bf16. All elements of a parameter are alike, and inputs are 1.
class Bf16Stage {
 public:
  Bf16Stage(const Graph& graph, const Value& loss, PlanOptions options = {.poison = true})
      : plan(graph, {loss}, cut_stages(graph, {loss}, 1), 0, options),
        slot_(allocate_host(plan.bytes().slot + 256)),
        scratch_(allocate_host(plan.bytes().scratch + 256)),
        stream_(device_) {
    for (const Buffer* buffer : {&slot_, &scratch_})
      std::memset(buffer->data(), 0xff, static_cast<std::size_t>(buffer->bytes()));
    ExecutorMemory memory{slot_.data(), plan.bytes().slot, scratch_.data(), {}, {}};
    memory.scalars = scalars_.data();
    for (const int p : plan.parameters()) {
      const Spec& spec = graph.parameters()[static_cast<std::size_t>(p)].spec;
      const auto count = static_cast<std::size_t>(spec.shape.count());
      weights_.emplace_back(count, rounded(number(static_cast<std::uint64_t>(p), 0)));
      gradients.emplace_back(count, 0.0f);
      memory.parameters.emplace_back(weights_.back().data(), spec.shape, DType::bf16);
      memory.gradients.emplace_back(gradients.back().data(), spec.shape);
    }
    for (const int id : graph.inputs()) {
      const Spec& spec = graph.values()[static_cast<std::size_t>(id)].spec;
      inputs_.emplace_back(static_cast<std::size_t>(spec.shape.count()), rounded(1));
      tensors_.emplace_back(inputs_.back().data(), spec.shape, spec.dtype);
    }
    executor_ = std::make_unique<Executor>(plan, memory, stream_, *mesh_, hooks_);
  }

  double run(int micro_batches = 1) {
    const MicroBatch batch{.last = true, .inputs = tensors_};
    for (int m = 0; m < micro_batches; ++m) {
      executor_->forward(0, batch);
      executor_->backward(0, batch);
    }
    return *executor_->result(0).as<double>();
  }
  float weight(std::size_t p) const { return to_float(weights_[p].front()); }

  Plan plan;
  std::vector<std::vector<float>> gradients;  // in the order of plan.parameters()

 private:
  Buffer slot_, scratch_;
  TestDevice device_;
  TestStream stream_;
  const DeviceScalars scalars_{stream_};
  std::unique_ptr<Mesh> mesh_ = make_self_mesh();
  ExecutorHooks hooks_;
  std::vector<std::vector<Bf16>> weights_, inputs_;
  std::vector<Tensor> tensors_;
  std::unique_ptr<Executor> executor_;
};

Value parameter(Graph& g, const std::string& name, Shape shape = {3}) {
  return g.parameter(name, shape, replicated(), normal(1));
}

TEST(MixedPrecision, ParametersAndFloatingInputsAreInTheComputeType) {
  Graph g(0, 1, DType::bf16);
  EXPECT_EQ(g.input("x", {3}).spec().dtype, DType::bf16);
  EXPECT_EQ(g.input("tokens", Spec({3}, DType::i32)).spec().dtype, DType::i32);
  EXPECT_EQ(g.input("exact", Spec({3}, DType::f64)).spec().dtype, DType::f64);
  EXPECT_EQ(parameter(g, "w").spec().dtype, DType::bf16);
  EXPECT_EQ(Graph().input("x", {3}).spec().dtype, DType::f32);
  EXPECT_THROW(Graph(0, 1, DType::i32), Error);
}

TEST(MixedPrecision, WeightGradientsAddUpInF32) {
  Graph g(0, 1, DType::bf16);
  const Value loss = apply<Total>({apply<Scaled>({g.input("x", {3}), parameter(g, "w")})});
  Bf16Stage stage(g, loss);
  stage.run(600);  // bf16 has no integer between 256 and 258: its sum would stay at 256
  EXPECT_EQ(stage.gradients[0], std::vector<float>(3, 600));
}

TEST(MixedPrecision, AParameterUsedAsAnActivationGetsItsGradientConverted) {
  Graph g(0, 1, DType::bf16);
  const Value p = parameter(g, "p"), w = parameter(g, "w");
  const Value x = g.input("x", {3});
  const Value loss = apply<Total>({apply<Plus>({apply<Scaled>({p, w}), apply<Plus>({x, p})})});
  Bf16Stage stage(g, loss);
  stage.run(600);
  const auto place = [&](int id) {
    const auto& order = stage.plan.parameters();
    return static_cast<std::size_t>(std::find(order.begin(), order.end(), id) - order.begin());
  };
  float expected = 0;  // 1 passes, and dy w is made in bf16; they are added one by one in f32
  for (int m = 0; m < 600; ++m) expected = (expected + 1) + stage.weight(place(1));
  EXPECT_EQ(stage.gradients[place(0)], std::vector<float>(3, expected));
}

TEST(MixedPrecision, AValueUsedAsAWeightHandsItsGradientOnInItsOwnType) {
  Graph g(0, 1, DType::bf16);
  const Value p = parameter(g, "p");
  const Value computed = apply<Plus>({p, g.input("x", {3})});
  const Value loss = apply<Total>({apply<Scaled>({g.input("y", {3}), computed})});
  Bf16Stage stage(g, loss);
  EXPECT_EQ(stage.run(), 3.0 * to_float(rounded(stage.weight(0) + 1)));
  EXPECT_EQ(stage.gradients[0], std::vector<float>(3, 1));
}

TEST(MixedPrecision, SharingAndPackingChangeNoBit) {
  Graph g(0, 1, DType::bf16);
  Value h = g.input("x", {40});
  for (int i = 0; i < 5; ++i) {
    const Value w = parameter(g, str("w", i), {40});
    h = apply<Plus>({h, apply<Scaled>({apply<Scaled>({h, w}), apply<Plus>({w, h})})});
  }
  const Value loss = apply<Total>({h});
  Bf16Stage shared(g, loss), plain(g, loss, {.share = false, .pack = false, .poison = true});
  EXPECT_EQ(shared.run(3), plain.run(3));
  EXPECT_EQ(shared.gradients, plain.gradients);
}

TEST(MixedPrecision, AnOpThatDoesNotSayItWorksInBf16IsRefusedByName) {
  Graph g(0, 1, DType::bf16);
  const Value x = g.input("x", {3});
  std::string message;
  try {
    g.scope("mlp", [&] { return apply<Tanh>({x}); });
  } catch (const Error& error) {
    message = error.what();
  }
  EXPECT_THAT(message, HasSubstr("op 'tanh' in scope 'mlp': input 0 is bf16"));
  EXPECT_THAT(message, HasSubstr("or compute in f32 (without --bf16)"));
  EXPECT_NO_THROW(apply<Slice>({x}, 0, Index{0}, Index{2}));  // a view is never run
}

TEST(MixedPrecision, ActivationsAndTransfersTakeHalfTheMemory) {
  const auto plan = [](DType compute, int stages) {
    Graph g(0, 1, compute);
    Value h = g.input("x", {1024});
    for (int i = 0; i < 8; ++i)
      h = g.block("block", i, [&] { return apply<Scaled>({h, parameter(g, "w", {1024})}); });
    const Value loss = apply<Total>({h});
    return Plan(g, {loss}, cut_stages(g, {loss}, stages), 0);
  };
  const Plan wide = plan(DType::f32, 1), half = plan(DType::bf16, 1);
  const auto loss = 2 * Index{256};  // f64, and its gradient
  EXPECT_EQ(half.compute(), DType::bf16);
  EXPECT_EQ(2 * (half.bytes().unpacked - loss), wide.bytes().unpacked - loss);
  EXPECT_LT(half.bytes().slot, wide.bytes().slot * 6 / 10);
  EXPECT_EQ(2 * half.bytes().parameters, wide.bytes().parameters);
  EXPECT_THAT(half.describe(), HasSubstr("computed in bf16"));
  const Plan wide_first = plan(DType::f32, 2), half_first = plan(DType::bf16, 2);
  EXPECT_EQ(2 * half_first.send_values().bytes, wide_first.send_values().bytes);
  EXPECT_EQ(2 * half_first.receive_gradients().bytes, wide_first.receive_gradients().bytes);
}

}  // namespace
}  // namespace trireme::test
