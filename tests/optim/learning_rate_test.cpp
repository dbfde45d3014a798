#include "trireme/optim/learning_rate.h"

#include <gtest/gtest.h>

#include "trireme/core/error.h"

namespace trireme {
namespace {

using Decay = LearningRateOptions::Decay;

TEST(LearningRate, WarmUpRisesLinearlyFromZeroToTheFullRate) {
  const LearningRate rate({Decay::cosine, 0.01, 0.001, 10, 100});
  EXPECT_EQ(rate.at(0), 0);
  for (Index step = 1; step < 10; ++step)
    EXPECT_DOUBLE_EQ(rate.at(step), 0.001 * static_cast<double>(step));
  EXPECT_DOUBLE_EQ(rate.at(10), 0.01);
}

TEST(LearningRate, CosineGoesThroughTheMiddleAndEndsAtTheSmallestRate) {
  const LearningRate rate({Decay::cosine, 0.01, 0.002, 10, 110});
  EXPECT_DOUBLE_EQ(rate.at(60), 0.006);
  EXPECT_NEAR(rate.at(35), 0.002 + 0.008 * 0.85355339059327378, 1e-15);  // (1 + cos(pi/4)) / 2
  EXPECT_DOUBLE_EQ(rate.at(110), 0.002);
  EXPECT_DOUBLE_EQ(rate.at(100000), 0.002);
}

TEST(LearningRate, LinearFallsEvenly) {
  const LearningRate rate({Decay::linear, 1, 0, 0, 4});
  EXPECT_DOUBLE_EQ(rate.at(0), 1);
  EXPECT_DOUBLE_EQ(rate.at(1), 0.75);
  EXPECT_DOUBLE_EQ(rate.at(3), 0.25);
  EXPECT_DOUBLE_EQ(rate.at(4), 0);
}

TEST(LearningRate, ConstantNeverDecaysAndNeedsNoDecayIters) {
  const LearningRate rate({Decay::constant, 0.5, 0, 2, 0});
  EXPECT_DOUBLE_EQ(rate.at(1), 0.25);
  EXPECT_DOUBLE_EQ(rate.at(2), 0.5);
  EXPECT_DOUBLE_EQ(rate.at(1000000), 0.5);
}

TEST(LearningRate, WarmUpMayLastUntilTheEnd) {
  const LearningRate rate({Decay::cosine, 1, 0.25, 8, 8});
  EXPECT_DOUBLE_EQ(rate.at(7), 0.875);
  EXPECT_DOUBLE_EQ(rate.at(8), 0.25);
}

void expect_message(const LearningRateOptions& options, const std::string& part) {
  try {
    LearningRate rate(options);
    FAIL() << "accepted; expected an error with: " << part;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(LearningRate, RejectsWhatMakesNoSenseAndNamesIt) {
  expect_message({Decay::cosine, -1, 0, 0, 10}, "--lr is -1");
  expect_message({Decay::cosine, 0.1, 0.2, 0, 10}, "--min-lr is 0.2");
  expect_message({Decay::cosine, 0.1, -0.2, 0, 10}, "--min-lr is -0.2");
  expect_message({Decay::cosine, 0.1, 0, -3, 10}, "--lr-warmup-iters is -3");
  expect_message({Decay::linear, 0.1, 0, 20, 10}, "--lr-decay-iters is 10");
  expect_message({Decay::linear, 0.1, 0, 0, 0}, "--lr-decay-iters is 0");
}

}  // namespace
}  // namespace trireme
