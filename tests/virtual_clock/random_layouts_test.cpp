// What the planner predicts and what the runtime does on simulated ranks agree within 1 %.
#include <gtest/gtest.h>

#include "tests/virtual_clock/random_layout.h"

namespace trireme::virtual_clock {
namespace {

constexpr int parts = 8, layouts = 200;

class RandomLayouts : public ::testing::TestWithParam<int> {};

TEST_P(RandomLayouts, TakeTheTimeThatIsPredicted) {
  for (int number = GetParam(); number < layouts; number += parts) {
    const RandomLayout layout = random_layout(number);
    EXPECT_NEAR(predicted_over_executed(layout), 1, 0.01)
        << "layout " << number << ": " << layout.describe();
  }
}

INSTANTIATE_TEST_SUITE_P(Of200, RandomLayouts, ::testing::Range(0, parts));

}  // namespace
}  // namespace trireme::virtual_clock
