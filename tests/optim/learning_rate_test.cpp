// The learning rate by step: warm-up, each kind of decay, and refused options.
#include "runtime/optim/learning_rate.h"

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/core/named_values.h"

namespace trireme {
namespace {

using Decay = LearningRateOptions::Decay;
using WsdDecay = LearningRateOptions::WsdDecay;

TEST(LearningRate, WarmUpRisesLinearlyFromZeroToTheFullRate) {
  const LearningRate rate({Decay::cosine, 0.01, 0.001, 9, 100});
  for (Index step = 1; step < 10; ++step)
    EXPECT_DOUBLE_EQ(rate.at(step), 0.001 * static_cast<double>(step));
  EXPECT_DOUBLE_EQ(rate.at(10), 0.01);
  EXPECT_LT(rate.at(11), 0.01);
}

// Where a user expects an update, there is one: as many as steps.
TEST(LearningRate, IsAboveZeroInEachStepOfTheSchedule) {
  for (const auto& [word, decay] : named_values<Decay>())
    for (const Index steps : {1, 2, 3, 10})
      for (Index warmup = 0; warmup <= steps; ++warmup) {
        LearningRateOptions options{decay, 1, 0, warmup, steps};
        options.wsd_decay_iters = default_wsd_decay_iters(options);
        for (Index step = 1; step <= steps; ++step)
          EXPECT_GT(LearningRate(options).at(step), 0) << word << ' ' << warmup << ' ' << steps;
      }
}

// nanoGPT, get_lr(it) of the iterations from 0 on, with warmup_iters 2 and lr_decay_iters 6;
// transformers' get_cosine_schedule_with_warmup(2, 6) has the same from update 3 on, as
// Megatron-LM's OptimizerParamScheduler has, which print the rate of the next update.
TEST(LearningRate, IsThatOfNanoGpt) {
  const LearningRate rate({Decay::cosine, 0.6, 0.06, 2, 6});
  const double expected[] = {0.2, 0.4, 0.6, 0.5209188309203679, 0.33, 0.13908116907963212, 0.06};
  Index step = 0;
  for (const double each : expected) EXPECT_NEAR(rate.at(++step), each, 1e-15) << step;
}

TEST(LearningRate, CosineGoesThroughTheMiddleAndEndsAtTheSmallestRate) {
  const LearningRate rate({Decay::cosine, 0.01, 0.002, 10, 110});
  EXPECT_DOUBLE_EQ(rate.at(61), 0.006);
  EXPECT_NEAR(rate.at(36), 0.002 + 0.008 * 0.85355339059327378, 1e-15);  // (1 + cos(pi/4)) / 2
  EXPECT_GT(rate.at(110), 0.002);
  EXPECT_DOUBLE_EQ(rate.at(111), 0.002);
  EXPECT_DOUBLE_EQ(rate.at(100000), 0.002);
}

TEST(LearningRate, LinearFallsEvenly) {
  const LearningRate rate({Decay::linear, 1, 0, 0, 4});
  EXPECT_DOUBLE_EQ(rate.at(1), 1);
  EXPECT_DOUBLE_EQ(rate.at(2), 0.75);
  EXPECT_DOUBLE_EQ(rate.at(4), 0.25);
  EXPECT_DOUBLE_EQ(rate.at(5), 0);
}

TEST(LearningRate, ConstantNeverDecaysAndNeedsNoDecayIters) {
  const LearningRate rate({Decay::constant, 0.5, 0, 1, 0});
  EXPECT_DOUBLE_EQ(rate.at(1), 0.25);
  EXPECT_DOUBLE_EQ(rate.at(2), 0.5);
  EXPECT_DOUBLE_EQ(rate.at(1000000), 0.5);
}

TEST(LearningRate, WarmUpMayLastUntilTheEnd) {
  const LearningRate rate({Decay::cosine, 1, 0.25, 7, 7});
  EXPECT_DOUBLE_EQ(rate.at(7), 0.875);
  EXPECT_DOUBLE_EQ(rate.at(8), 0.25);
}

LearningRateOptions wsd(WsdDecay style) {
  return {.decay = Decay::wsd,
          .lr = 0.01,
          .min_lr = 0.002,
          .warmup_iters = 10,
          .decay_iters = 110,
          .wsd_decay_iters = 40,
          .wsd_decay = style};
}

TEST(LearningRate, WsdStaysAtTheFullRateUntilItsLastSteps) {
  for (const auto& [word, style] : named_values<WsdDecay>()) {
    const LearningRate rate(wsd(style));
    EXPECT_DOUBLE_EQ(rate.at(11), 0.01) << word;
    EXPECT_DOUBLE_EQ(rate.at(71), 0.01) << word;
    EXPECT_LT(rate.at(72), 0.01) << word;
    EXPECT_GT(rate.at(110), 0.002) << word;
    EXPECT_DOUBLE_EQ(rate.at(111), 0.002) << word;
    EXPECT_DOUBLE_EQ(rate.at(100000), 0.002) << word;
  }
}

TEST(LearningRate, WsdFallsByItsFormulas) {
  const auto left = [](WsdDecay style, Index step) {
    return (LearningRate(wsd(style)).at(step + 1) - 0.002) / 0.008;
  };
  EXPECT_NEAR(left(WsdDecay::linear, 80), 0.75, 1e-14);
  EXPECT_NEAR(left(WsdDecay::cosine, 80), 0.85355339059327378, 1e-14);       // (1 + cos(pi/4)) / 2
  EXPECT_NEAR(left(WsdDecay::exponential, 80), 0.68179283050742909, 1e-14);  // 2 * 2^(-1/4) - 1
  EXPECT_NEAR(left(WsdDecay::minus_sqrt, 80), 0.5, 1e-14);
}

TEST(LearningRate, WsdFallsInTheLastTenthByDefault) {
  EXPECT_EQ(default_wsd_decay_iters({.warmup_iters = 10, .decay_iters = 200}), 20);
  EXPECT_EQ(default_wsd_decay_iters({.warmup_iters = 195, .decay_iters = 200}), 5);
  EXPECT_EQ(default_wsd_decay_iters({.warmup_iters = 200, .decay_iters = 200}), 1);
  EXPECT_EQ(default_wsd_decay_iters({.decay_iters = 3}), 1);
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
  expect_message({Decay::wsd, 0.1, 0, 5, 20, 0}, "--lr-wsd-decay-iters is 0");
  expect_message({Decay::wsd, 0.1, 0, 5, 20, 16}, "--lr-wsd-decay-iters is 16");
}

}  // namespace
}  // namespace trireme
