// gradient_check passes what is right, and catches each way of being wrong.
#include "trireme/graph/gradient_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/graph/toy_ops.h"

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
enum class Fault { none, gradient, saved, accumulate, over_input, passes, partly_written };
class Faulty final : public Elementwise {
 public:
  explicit Faulty(Fault fault) : fault_(fault) {}
  std::string name() const override { return "faulty"; }
  Saved saved() const override {
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
          dy[i] * (1 - y[i] * y[i]) * (fault_ == Fault::gradient ? 1.01f : 1);
  }

 private:
  Fault fault_;
};

double check(Fault fault) {
  TestDevice device;
  return gradient_check(Faulty(fault), {CheckInput({3, 5})}, device);
}
std::string message(Fault fault) {
  try {
    check(fault);
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing";
}

TEST(GradientCheck, CatchesAWrongGradient) { EXPECT_GT(check(Fault::gradient), 5e-3); }
TEST(GradientCheck, CatchesAWrongAccumulate) { EXPECT_GT(check(Fault::accumulate), 0.1); }
TEST(GradientCheck, CatchesAGradientThatDoesNotPass) { EXPECT_GT(check(Fault::passes), 0.01); }
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
TEST(GradientCheck, PassesTheFaultlessTwin) { EXPECT_LT(check(Fault::none), 1e-5); }

}  // namespace
}  // namespace trireme::test
