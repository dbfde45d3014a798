// Accuracy of the vector functions, in units of the last place of the true result.
#include <cmath>

#include "kernels/cpu/loops.h"
#include "tests/kernels/all_instruction_sets.h"
#include "tests/support/finite_or_huge.h"

namespace trireme::kernels {
namespace {

double ulp(double x) { return std::ldexp(1.0, std::max(std::ilogb(x), -126) - 23); }

using Function = void (*)(const float*, float*, Index);

double largest_error(Function f, double (*exact)(double), float low, float high) {
  constexpr Index count = 400001;
  Floats x(count), y(count);
  for (Index i = 0; i < count; ++i)
    x[static_cast<std::size_t>(i)] =
        low + (high - low) * static_cast<float>(i) / static_cast<float>(count - 1);
  f(x.data(), y.data(), count);
  double worst = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double e = exact(static_cast<double>(x[i]));
    const double error = std::fabs(static_cast<double>(y[i]) - e) / ulp(e);
    worst = std::max(worst, test::finite_or_huge(error));
  }
  return worst;
}

double exact_sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double exact_normal(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

TEST(Math, ExpIsWithinOneAndAHalfUlp) {
  for (InstructionSet set : instruction_sets()) {
    const Function f = loops_for<MathLoops>(set).exp;
    EXPECT_LE(largest_error(f, std::exp, -87.3f, 88.72f), 1.5) << name(set);
    EXPECT_LE(largest_error(f, std::exp, -1, 1), 1.5) << name(set);
    EXPECT_LE(largest_error(f, std::exp, -1e-6f, 1e-6f), 1.0) << name(set);
  }
}

TEST(Math, SigmoidIsWithinThreeUlp) {
  for (InstructionSet set : instruction_sets()) {
    EXPECT_LE(largest_error(loops_for<MathLoops>(set).sigmoid, exact_sigmoid, -86.9f, 30), 3.0)
        << name(set);
    EXPECT_LE(largest_error(loops_for<MathLoops>(set).sigmoid, exact_sigmoid, -2, 2), 3.0)
        << name(set);
  }
}

TEST(Math, TheNormalDistributionIsWithinEightUlp) {
  for (InstructionSet set : instruction_sets()) {
    EXPECT_LE(largest_error(loops_for<MathLoops>(set).normal_below, exact_normal, -13, 13), 8.0)
        << name(set);
    EXPECT_LE(largest_error(loops_for<MathLoops>(set).normal_below, exact_normal, -1, 1), 8.0)
        << name(set);
  }
}

TEST(Math, SpecialValuesComeOutRight) {
  const float inf = HUGE_VALF, nan = std::nanf("");
  const Floats x = {0.0f, -0.0f, inf, -inf, nan, 100.0f, -100.0f, 3e38f, -3e38f, 1e-40f};
  for (InstructionSet set : instruction_sets()) {
    Floats y(x.size());
    loops_for<MathLoops>(set).exp(x.data(), y.data(), static_cast<Index>(x.size()));
    EXPECT_EQ(Floats(y.begin(), y.begin() + 4), (Floats{1, 1, inf, 0}));
    EXPECT_TRUE(std::isnan(y[4]));
    EXPECT_EQ(Floats(y.begin() + 5, y.end()), (Floats{inf, 0, inf, 0, 1}));
    loops_for<MathLoops>(set).sigmoid(x.data(), y.data(), static_cast<Index>(x.size()));
    EXPECT_EQ(Floats(y.begin(), y.begin() + 3), (Floats{0.5, 0.5, 1}));
    for (std::size_t i : {3u, 6u, 8u}) {  // stays a normal number
      EXPECT_GT(y[i], 1e-38f);
      EXPECT_LT(y[i], 2e-38f);
    }
    EXPECT_TRUE(std::isnan(y[4]));
    EXPECT_EQ((Floats{y[5], y[7], y[9]}), (Floats{1, 1, 0.5}));
    loops_for<MathLoops>(set).normal_below(x.data(), y.data(), static_cast<Index>(x.size()));
    EXPECT_NEAR(y[0], 0.5, 1e-7);
    EXPECT_EQ(Floats(y.begin() + 2, y.begin() + 4), (Floats{1, 0}));
    EXPECT_TRUE(std::isnan(y[4]));
    EXPECT_EQ(Floats(y.begin() + 5, y.begin() + 9), (Floats{1, 0, 1, 0}));
  }
}

// All bf16 numbers, and between each and the next: just above, below and above the middle, the
// middle, just below the next.
TEST(Math, Bf16IsLoadedExactlyAndStoredToNearestEven) {
  Floats x;
  std::vector<Bf16> all;
  for (std::uint32_t high = 0; high <= 0xffff; ++high) {
    all.push_back({static_cast<std::uint16_t>(high)});
    for (std::uint32_t low : {0u, 1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu})
      x.push_back(std::bit_cast<float>(high << 16 | low));
  }
  all.push_back(to_bf16(1.5f));  // an odd number of them
  x.push_back(1.5f);
  for (InstructionSet set : instruction_sets()) {
    const ConversionLoops& conversion = loops_for<ConversionLoops>(set);
    std::vector<Bf16> y(x.size());
    conversion.narrow(x.data(), y.data(), static_cast<Index>(x.size()));
    for (std::size_t i = 0; i < x.size(); ++i)
      ASSERT_EQ(y[i].bits, to_bf16(x[i]).bits) << name(set) << ", " << x[i];
    Floats widened(all.size());
    conversion.widen(all.data(), widened.data(), static_cast<Index>(all.size()));
    EXPECT_TRUE(same_bits(widened, floats_of(all))) << name(set);
  }
}

}  // namespace
}  // namespace trireme::kernels
