// gradient_check passes what is right, and catches each way of being wrong.
#include "trireme/graph/gradient_check.h"

#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/core/bf16.h"

#include "tests/graph/toy_ops.h"
#include "tests/support/message_of.h"

namespace trireme::test {
namespace {

TEST(GradientCheck, PassesOpsThatAreRight) {
  TestDevice device;
  EXPECT_LT(gradient_check(Tanh(), {CheckInput({7, 33})}, device), 1e-5);
  EXPECT_LT(gradient_check(Mul(), {CheckInput({3, 5}), CheckInput({3, 5})}, device), 1e-5);
  EXPECT_LT(gradient_check(Add(), {CheckInput({3, 5}), CheckInput({3, 5})}, device), 1e-5);
  EXPECT_LT(gradient_check(HalfSquare(), {CheckInput({3, 5})}, device), 1e-5);
  EXPECT_LT(gradient_check(SinCos(), {CheckInput({3, 5})}, device), 1e-5);
  EXPECT_LT(gradient_check(Linear(), {CheckInput({3, 5}), CheckInput({4, 5}, -1, 1, true)}, device),
            1e-5);
  EXPECT_LT(
      gradient_check(Mix(), {CheckInput({3, 5}), CheckInput({3, 5}), CheckInput({3, 5})}, device),
      1e-5);
  EXPECT_LT(
      gradient_check(RmsNorm(), {CheckInput({3, 5}), CheckInput(Spec{5}, -1, 1, true)}, device),
      1e-4);
  EXPECT_LT(gradient_check(
                Rows(), {CheckInput(Spec({6}, DType::i32), 0, 4), CheckInput({4, 3}, -1, 1, true)},
                device),
            1e-5);
}

TEST(GradientCheck, TakesALossInDoublePrecision) {
  TestDevice device;
  EXPECT_LT(gradient_check(SquaredError(), {CheckInput({3, 5}), CheckInput({3, 5})}, device), 1e-5);
}

TEST(GradientCheck, TakesASubgraph) {
  TestDevice device;
  const auto build = [](Graph&, const Values& in) {
    return in[0].apply<Slice>(1, 1, 4).apply<Contiguous>().apply<Tanh>();
  };
  EXPECT_LT(gradient_check(build, {CheckInput({3, 6})}, device), 1e-5);
}

/// Tanh with one thing wrong.
enum class Fault {
  none,
  gradient,
  saved,
  accumulate,
  over_input,
  passes,
  partly_written,
  no_number
};
class Faulty final : public Elementwise {
 public:
  explicit Faulty(Fault fault) : fault_(fault) {}
  std::string name() const override { return "faulty"; }
  Saved saved(const BackwardWork&) const override {
    return fault_ == Fault::saved ? Saved::input(0) : Saved::output(0);
  }
  bool accumulates(int) const override { return fault_ == Fault::accumulate; }
  Sharing sharing() const override {
    if (fault_ == Fault::over_input) return Sharing().output_over_input(0, 0);
    return fault_ == Fault::passes ? Sharing().gradient_passes(0, 0) : Sharing();
  }
  void forward(Exec& e) const override {
    const float* x = e.input(0).as<float>();
    const Index n = e.output(0).count();
    for (Index i = 0; i < n; ++i) {
      // Reads an element that an in-place write has changed already.
      const float other = fault_ == Fault::over_input ? 0.1f * x[i == 0 ? 0 : i - 1] : 0;
      e.output(0).as<float>()[i] = std::tanh(x[i] + other);
    }
  }
  void backward(Exec& e) const override {
    const float *y = e.output(0).as<float>(), *dy = e.grad_output(0).as<float>();
    const Index n = e.output(0).count() - (fault_ == Fault::partly_written ? 1 : 0);
    for (Index i = 0; i < n; ++i)  // never adds
      e.grad_input(0).as<float>()[i] =
          dy[i] * (1 - y[i] * y[i]) *
          (fault_ == Fault::gradient    ? 1.01f
           : fault_ == Fault::no_number ? std::numeric_limits<float>::quiet_NaN()
                                        : 1);
  }

 private:
  Fault fault_;
};

GradientError check(Fault fault) {
  TestDevice device;
  return gradient_check(Faulty(fault), {CheckInput({3, 5})}, device);
}
std::string message(Fault fault) {
  return message_of([&] { check(fault); });
}

TEST(GradientCheck, CatchesAWrongGradientAndNamesItsWorstElement) {
  const GradientError error = check(Fault::gradient);
  EXPECT_GT(error, 5e-3);
  EXPECT_EQ(error.input, 0);
  EXPECT_NEAR(error.analytic, 1.01 * error.numeric, 1e-3 * std::fabs(error.numeric));
  std::ostringstream out;
  out << error;
  EXPECT_THAT(out.str(), testing::HasSubstr(str("(input 0, element ", error.element, ": ")));
}
TEST(GradientCheck, CatchesAWrongAccumulate) { EXPECT_GT(check(Fault::accumulate), 0.1); }
TEST(GradientCheck, CatchesAGradientThatDoesNotPass) { EXPECT_GT(check(Fault::passes), 0.01); }
TEST(GradientCheck, NamesAGradientThatIsNoNumberAndItsInput) {
  EXPECT_THAT(message(Fault::no_number),
              testing::ContainsRegex("the gradient of input 0 is -?nan at element 0, where the "
                                     "input is -?0\\.[0-9]+: check backward"));
}
TEST(GradientCheck, CatchesAReadOfWhatIsNotSaved) {
  EXPECT_THAT(message(Fault::saved), testing::HasSubstr("'faulty' asks in backward for output 0"));
}
TEST(GradientCheck, CatchesAnOutputThatMayNotLieOverItsInput) {
  EXPECT_THAT(message(Fault::over_input), testing::HasSubstr("shared and packed"));
}
TEST(GradientCheck, CatchesAGradientThatIsNotWrittenWhole) {
  EXPECT_THAT(message(Fault::partly_written), testing::HasSubstr("is another one"));
}
TEST(GradientCheck, RefusesASubgraphWithParametersOfItsOwn) {
  TestDevice device;
  const auto build = [](Graph& g, const Values& in) -> Value {
    return g
        .apply(std::make_shared<Add>(), {in[0], g.parameter("bias", {3, 5}, replicated(), zeros())})
        .front();
  };
  try {
    gradient_check(build, {CheckInput({3, 5})}, device);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("'bias'"));
  }
}
TEST(GradientCheck, RefusesASubgraphThatLeavesAnInputUnused) {
  TestDevice device;
  const auto build = [](Graph&, const Values& in) { return in[0].apply<Tanh>(); };
  EXPECT_THAT(message_of([&] {
                gradient_check(build, {CheckInput({3, 5}), CheckInput({3, 5})}, device);
              }),
              testing::HasSubstr("input 1 is used by no op"));
}
/// Products, of an op that is wrong in one way.
enum class ProductFault { none, writes_all, shapes, bf16_forward, bf16_backward };
class Product final : public Op {
 public:
  explicit Product(ProductFault fault) : fault_(fault) {}
  std::string name() const override { return "product"; }
  Outputs infer(const Specs& in) const override {
    require(fault_ == ProductFault::shapes || in[0].shape == in[1].shape, "one shape");
    return {in[0]};
  }
  Saved saved(const BackwardWork&) const override { return Saved::input(0) | Saved::input(1); }
  bool works_in(DType dtype) const override { return dtype == DType::f32 || dtype == DType::bf16; }
  void forward(Exec& e) const override {
    const bool wrong = fault_ == ProductFault::bf16_forward && e.output(0).dtype == DType::bf16;
    for (Index i = 0; i < e.output(0).count(); ++i)
      put(e.output(0), i, get(e.input(0), i) * get(e.input(1), i) * (wrong ? 1.1f : 1));
  }
  void backward(Exec& e) const override {
    for (const int k : {0, 1}) {
      if (fault_ != ProductFault::writes_all && !e.wants(k)) continue;
      const Tensor& dx = e.grad_input(k);
      const bool wrong = fault_ == ProductFault::bf16_backward && dx.dtype == DType::bf16;
      for (Index i = 0; i < dx.count(); ++i)
        put(dx, i,
            get(e.grad_output(0), i) * get(e.input(1 - k), i) * (wrong && i == 3 ? 2.0f : 1));
    }
  }

 private:
  static float get(const Tensor& x, Index i) {
    return x.dtype == DType::bf16 ? to_float(x.as<Bf16>()[i]) : x.as<float>()[i];
  }
  static void put(const Tensor& x, Index i, float value) {
    if (x.dtype == DType::bf16)
      x.as<Bf16>()[i] = to_bf16(value);
    else
      x.as<float>()[i] = value;
  }
  ProductFault fault_;
};
GradientError check(ProductFault fault,
                    const std::vector<CheckInput>& inputs = {Spec{3, 5}, Spec{3, 5}}) {
  TestDevice device;
  return gradient_check(Product(fault), inputs, device);
}
std::string message(ProductFault fault) {
  return message_of([&] { check(fault); });
}

TEST(GradientCheck, AsksForTheGradientOfEachInputAlone) {
  EXPECT_LT(check(ProductFault::none), 1e-5);
  EXPECT_THAT(message(ProductFault::writes_all),
              testing::AllOf(testing::HasSubstr("with the gradient of input 0 alone asked for"),
                             testing::HasSubstr("asks in backward for the gradient of input 1")));
  CheckInput data({3, 5});
  data.differentiable = false;
  EXPECT_THAT(message_of([&] {
                check(ProductFault::writes_all, {Spec{3, 5}, data});
              }),
              testing::HasSubstr("asks in backward for the gradient of input 1"));
}
TEST(GradientCheck, ComparesAnOpThatWorksInBf16WithItselfInF32) {
  EXPECT_THAT(message(ProductFault::bf16_forward),
              testing::AllOf(testing::HasSubstr("output 0 differs by 0."),
                             testing::HasSubstr("in bf16"), testing::HasSubstr("in f32")));
  EXPECT_THAT(message(ProductFault::bf16_backward),
              testing::AllOf(testing::HasSubstr("the gradient of input 0 differs"),
                             testing::HasSubstr("most at element 3: ")));
}
TEST(GradientCheck, TriesShapesThatAreOffByOne) {
  EXPECT_THAT(
      message(ProductFault::shapes),
      testing::AllOf(testing::HasSubstr("infer of 'product' accepted f32 (3, 6) as input 1"),
                     testing::HasSubstr("the only place where shapes are checked")));
  EXPECT_THAT(message_of([] {
                check(ProductFault::shapes, {Spec{4, 1}, Spec{4, 9}});
              }),
              testing::HasSubstr("the only place where shapes are checked"));
}
TEST(GradientCheck, NamesAnOpThatRefusesItsInputs) {
  EXPECT_EQ(message_of([] {
              check(ProductFault::none, {Spec{3, 5}, Spec{3, 6}});
            }),
            "gradient_check: op 'product': one shape (inputs: f32 (3, 5), f32 (3, 6))");
}

/// Half the sum of squares of all ranks' elements; `sums`: it adds them up over the tensor axis.
class SumOfSquares final : public Op {
 public:
  explicit SumOfSquares(bool sums) : sums_(sums) {}
  std::string name() const override { return "sum_of_squares"; }
  Outputs infer(const Specs&) const override { return {Spec(Shape{}, DType::f64)}; }
  Saved saved(const BackwardWork&) const override { return Saved::input(0); }
  Placement placement(const Placements&, const std::vector<bool>&) const override {
    return Placement::replicated;
  }
  void forward(Exec& e) const override {
    double* sum = e.output(0).as<double>();
    *sum = 0;
    for (Index i = 0; i < e.input(0).count(); ++i)
      *sum += 0.5 * std::pow(e.input(0).as<float>()[i], 2);
    if (sums_) e.group(Role::tensor).all_reduce({sum, 1, DType::f64}, Reduction::sum, e.stream());
  }
  void backward(Exec& e) const override {
    for (Index i = 0; i < e.input(0).count(); ++i)
      e.grad_input(0).as<float>()[i] =
          static_cast<float>(*e.grad_output(0).as<double>()) * e.input(0).as<float>()[i];
  }

 private:
  bool sums_;
};

TEST(GradientCheck, ComparesTensorRanksWithOne) {
  TestDevice device;
  GradientCheckOptions ranks{.tensor_ranks = 2,
                             .device = [] { return std::make_unique<TestDevice>(); }};
  for (const int dim : {0, 1}) {
    CheckInput x({4, 6});
    x.placement = Placement::sharded;
    x.split_dim = dim;
    EXPECT_LT(gradient_check(SumOfSquares(true), {x}, device, ranks), 1e-4);
    EXPECT_LT(gradient_check(Tanh(), {x}, device, ranks), 1e-4);
    EXPECT_LT(gradient_check(Mul(), {x, x}, device, ranks), 1e-4);
    EXPECT_THAT(
        message_of([&] { gradient_check(SumOfSquares(false), {x}, device, ranks); }),
        testing::AllOf(testing::HasSubstr("output 0 differs"),
                       testing::HasSubstr("on 2 tensor ranks"), testing::HasSubstr("on one")));
  }
  CheckInput entered({4, 6});
  entered.placement = Placement::partial_gradient;
  EXPECT_LT(gradient_check(Tanh(), {entered}, device, ranks), 1e-4);
  CheckInput whole_weight(Spec{6}, -1, 1, true), rows({4, 6});
  rows.placement = Placement::sharded;
  EXPECT_LT(gradient_check(RmsNorm(), {rows, whole_weight}, device, ranks), 1e-4);
}

TEST(GradientCheck, RefusesARangeWithoutWidthAndADimThatCannotBeSplit) {
  TestDevice device;
  EXPECT_THAT(message_of([&] {
                gradient_check(Tanh(), {CheckInput({4, 6}, 1, 1)}, device);
              }),
              testing::HasSubstr("the range of input 0 is [1, 1]"));
  CheckInput constant({4, 6}, 1, 1);
  constant.differentiable = false;
  EXPECT_LT(gradient_check(Mul(), {CheckInput({4, 6}), constant}, device), 1e-5);
  const auto split = [&](int dim, bool differentiable) {
    CheckInput x({4, 6});
    x.placement = Placement::sharded;
    x.split_dim = dim;
    x.differentiable = differentiable;
    GradientCheckOptions ranks{.tensor_ranks = 4,
                               .device = [] { return std::make_unique<TestDevice>(); }};
    return message_of([&] { gradient_check(Mul(), {x, x}, device, ranks); });
  };
  for (const bool differentiable : {true, false}) {
    EXPECT_THAT(split(-1, differentiable), testing::HasSubstr("split_dim -1 of input 0 is no dim"));
    EXPECT_THAT(split(2, differentiable), testing::HasSubstr("split_dim 2 of input 0 is no dim"));
    EXPECT_THAT(split(1, differentiable), testing::HasSubstr("does not divide by 4 tensor ranks"));
  }
}

TEST(GradientCheck, PassesTheFaultlessTwin) { EXPECT_LT(check(Fault::none), 1e-5); }

}  // namespace
}  // namespace trireme::test
