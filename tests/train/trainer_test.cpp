// The trainer on ranks as threads: every layout trains alike, and failures are known to all ranks.
#include "trireme/train/trainer.h"

#include <cmath>
#include <limits>
#include <mutex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/message_of.h"
#include "tests/train/sines.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::HasSubstr;

struct TrainedOnLayout {
  std::vector<StepMetrics> steps;
  double before = 0, after = 0;  // evaluations
};

/// What rank `mesh.size() - 1` sees.
TrainedOnLayout train(const Layout& layout) {
  TrainedOnLayout result;
  const Options options = options_for(layout);
  on_ranks(layout, options, [&](Context& context) {
    Trainer trainer(context, Model([&](Graph& g) { return mlp(g, layout.micro_batch); }));
    Sines data;
    TrainedOnLayout mine;
    mine.before = trainer.evaluate(data, 3);
    for (int i = 0; i < 5; ++i) mine.steps.push_back(trainer.step(data));
    mine.after = trainer.evaluate(data, 3);
    if (context.mesh().rank() == context.mesh().shape().size() - 1) result = mine;
  });
  return result;
}

class TrainerLayouts : public testing::TestWithParam<Layout> {};

TEST_P(TrainerLayouts, AgreeWithOneRank) {
  static const TrainedOnLayout one = train({1, 1, 1, 1, 8, false});
  const TrainedOnLayout other = train(GetParam());
  ASSERT_EQ(other.steps.size(), 5u);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_NEAR(other.steps[i].loss / one.steps[i].loss, 1, 2e-7) << "step " << i;
    EXPECT_NEAR(other.steps[i].grad_norm / one.steps[i].grad_norm, 1, 1e-5) << "step " << i;
    EXPECT_EQ(other.steps[i].targets, 8 * width);
    EXPECT_EQ(other.steps[i].step, static_cast<Index>(i) + 1);
  }
  EXPECT_NEAR(other.before / one.before, 1, 2e-7);
  EXPECT_NEAR(other.after / one.after, 1, 2e-7);
  EXPECT_LT(one.after, 0.95 * one.before);  // it learns
}

INSTANTIATE_TEST_SUITE_P(All, TrainerLayouts,
                         testing::Values(Layout{1, 1, 1, 1, 2, false}, Layout{2, 1, 1, 1, 2, false},
                                         Layout{4, 1, 1, 1, 1, true}, Layout{1, 2, 1, 1, 1, false},
                                         Layout{1, 2, 1, 2, 2, false}, Layout{1, 1, 2, 1, 4, false},
                                         Layout{2, 2, 2, 1, 1, false}, Layout{2, 2, 2, 2, 1, true},
                                         Layout{2, 2, 2, 2, 1, true, false, true}));

TEST(Trainer, LossAndGradientAreMeansOverTheTargetsOfTheGlobalBatch) {
  // The model is x + offset with offset 0: the first loss is the mean of (x - sin x)^2 over the
  // first 8 samples, and the gradient of offset[i] the mean of 2 (x - sin x) at i, over `width`.
  double loss = 0, gradient[width] = {};
  for (Index sample = 0; sample < 8; ++sample) {
    float x[width], y[width];
    const Tensor row[] = {{x, {width}}, {y, {width}}};
    Sines().fill(sample, row);
    for (Index i = 0; i < width; ++i) {
      const double difference = static_cast<double>(x[i]) - static_cast<double>(y[i]);
      loss += difference * difference / (8 * width);
      gradient[i] += 2 * difference / (8 * width);
    }
  }
  double norm = 0;
  for (const double g : gradient) norm += g * g;
  const Layout layout{2, 1, 1, 1, 2, false};
  const Options options = options_for(layout);
  on_ranks(layout, options, [&](Context& context) {
    Trainer trainer(context, Model([](Graph& g) {
                      const Value x = g.input("x", {2, width});
                      const Value moved = add_positions(
                          x, g.parameter("offset", {1, width}, replicated(), zeros()), 1);
                      return squared_error(moved, g.input("y", {2, width}));
                    }));
    Sines data;
    const StepMetrics metrics = trainer.step(data);
    EXPECT_NEAR(metrics.loss, loss, 1e-6 * loss);
    EXPECT_NEAR(metrics.grad_norm, std::sqrt(norm), 1e-6 * std::sqrt(norm));
  });
}

/// Not a number in the samples of the second step.
class Broken final : public Sines {
 public:
  Index fill(Index sample, std::span<const Tensor> out) override {
    const Index targets = Sines::fill(sample, out);
    if (sample / 8 == 1 && out[1].data != nullptr)
      out[1].as<float>()[0] = std::numeric_limits<float>::quiet_NaN();
    return targets;
  }
};

TEST(Trainer, SkipsAStepThatIsNotFiniteOnAllRanksAlike) {
  const Layout layout{2, 2, 1, 1, 1, true};
  const Options options = options_for(layout);
  on_ranks(layout, options, [&](Context& context) {
    Trainer trainer(context, Model([&](Graph& g) { return mlp(g, layout.micro_batch); }));
    Broken data;
    EXPECT_FALSE(trainer.step(data).skipped);
    Sines good;
    const double before = trainer.evaluate(good, 1);
    EXPECT_TRUE(trainer.step(data).skipped);
    EXPECT_EQ(trainer.evaluate(good, 1), before);
    EXPECT_FALSE(trainer.step(data).skipped);
    EXPECT_TRUE(std::isfinite(trainer.evaluate(good, 1)));
  });
}

/// Sample 13 cannot be read.
class Unreadable final : public Sines {
 public:
  Index fill(Index sample, std::span<const Tensor> out) override {
    require(sample != 13, "the row cannot be read");
    return Sines::fill(sample, out);
  }
};

TEST(Trainer, BadDataOfOneRankStopsAllWithItsMessage) {
  const Layout layout{2, 1, 1, 1, 1, false};
  const Options options = options_for(layout);
  std::mutex mutex;
  std::vector<std::string> messages;
  on_ranks(layout, options, [&](Context& context) {
    Trainer trainer(context, Model([&](Graph& g) { return mlp(g, layout.micro_batch); }));
    Unreadable data;  // 13 is row 5 of the second global batch: data rank 1
    trainer.step(data);
    try {
      trainer.step(data);
    } catch (const JobError& error) {
      const std::lock_guard lock(mutex);
      messages.push_back(error.what());
    }
  });
  EXPECT_EQ(messages, std::vector<std::string>(
                          2, "rank 1: DataSource::fill of sample 13: the row cannot be read"));
}

/// Says of its samples what it is made with; `y`: the first target.
class Claims final : public Sines {
 public:
  explicit Claims(Index targets, float y = 0) : targets_(targets), y_(y) {}
  Index fill(Index sample, std::span<const Tensor> out) override {
    Sines::fill(sample, out);
    if (out[1].data != nullptr) out[1].as<float>()[0] = y_;
    return targets_;
  }

 private:
  Index targets_;
  float y_;
};

/// The error of every rank in a step on such data.
template <class Source>
std::string step_error(const Options& options, Source data) {
  const Layout layout{2, 2, 1, 1, 1, false};
  std::mutex mutex;
  std::vector<std::string> messages;
  on_ranks(layout, options, [&](Context& context) {
    Trainer trainer(context, Model([&](Graph& g) { return mlp(g, layout.micro_batch); }));
    try {
      trainer.step(data);
    } catch (const JobError& error) {
      const std::lock_guard lock(mutex);
      messages.push_back(error.what());
    }
  });
  EXPECT_EQ(messages, std::vector<std::string>(4, messages.at(0)));
  return messages.at(0);
}

TEST(Trainer, NumbersOfTargetsThatCannotBeAreErrors) {
  const Options options = options_for({2, 2, 1, 1, 1, false});
  EXPECT_EQ(step_error(options, Claims(-5)),
            "rank 0: DataSource::fill says that sample 0 has -5 targets; a sample has from 0 to "
            "4294967296");
  EXPECT_THAT(step_error(options, Claims(Index{1} << 62)), HasSubstr("has 4611686018427387904"));
  EXPECT_THAT(step_error(options, Claims(0)), HasSubstr("no sample from 0 to 7 has a target"));
}

TEST(Trainer, CheckFiniteNamesTheInputThatIsNot) {
  Options options = options_for({2, 2, 1, 1, 1, false});
  options.check_finite = true;
  EXPECT_THAT(step_error(options, Claims(8, std::numeric_limits<float>::quiet_NaN())),
              HasSubstr("input 'y' of sample 0: element 0 is nan"));
}

/// Writes one element more than a row has.
class TooLong final : public Sines {
 public:
  Index fill(Index sample, std::span<const Tensor> out) override {
    const Index targets = Sines::fill(sample, out);
    if (out[0].data != nullptr) out[0].as<float>()[out[0].count()] = 1;
    return targets;
  }
};

TEST(Trainer, CheckFiniteNamesTheInputThatASourceWritesBeyond) {
  Options options = options_for({2, 2, 1, 1, 1, false});
  options.check_finite = true;
  EXPECT_THAT(step_error(options, TooLong()),
              HasSubstr("DataSource::fill of sample 0 writes beyond input 'x', which has"));
}

TEST(Trainer, EvaluationOfNothingIsAnError) {
  const Layout layout{1, 1, 1, 1, 1, false};
  const Options options = options_for(layout);
  on_ranks(layout, options, [&](Context& context) {
    Trainer trainer(context, Model([&](Graph& g) { return mlp(g, layout.micro_batch); }));
    Sines data;
    for (const Index batches : {0, -1})
      EXPECT_THAT(message_of([&] { trainer.evaluate(data, batches); }),
                  HasSubstr(str("at least one global batch, not ", batches)));
  });
}

std::string configuration_error(const Layout& layout, const Forward& forward) {
  const Options options = options_for(layout);
  std::mutex mutex;
  std::vector<std::string> messages;
  on_ranks(layout, options, [&](Context& context) {
    try {
      Trainer trainer(context, Model(forward));
    } catch (const ConfigurationError& error) {
      const std::lock_guard lock(mutex);
      messages.push_back(error.what());
    }
  });
  EXPECT_EQ(messages.size(),
            static_cast<std::size_t>(layout.data * layout.pipeline * layout.tensor));
  for (const std::string& message : messages) EXPECT_EQ(message, messages.front());
  return messages.empty() ? "" : messages.front();
}

TEST(Trainer, AModelThatDoesNotFitMemoryIsAConfigurationErrorThatNamesTheLargestTensors) {
  const std::string message = configuration_error({2, 1, 1, 1, 1, false}, [](Graph& g) {
    const Value x = linear(g.input("x", {1, width}), "vast", Index{1} << 40);
    return squared_error(x, g.input("y", {1, Index{1} << 40}));
  });
  EXPECT_THAT(message, AllOf(HasSubstr("1 problem"), HasSubstr("are free"),
                             HasSubstr("parameter vast.weight"), HasSubstr("for 2 ranks"),
                             HasSubstr("libraries about 32.0 MiB")));
}

TEST(Trainer, SharedParametersAreInTheDebugLog) {
  const auto shares = [](Graph& g) {
    Value x = g.input("x", {1, width});
    for (int i = 0; i < 2; ++i) x = linear(x, "same", width);
    return squared_error(linear(x, "own", width), g.input("y", {1, width}));
  };
  const auto log_of = [&](LogLevel level) {
    Options options;
    options.log_level = level;
    options.learning_rate.decay_iters = 1;
    std::string error;
    testing::internal::CaptureStdout();
    run_on_threads(MeshShape(1, 1, 1), [&](Mesh& mesh) {
      const std::unique_ptr<Device> device = open_cpu();
      const std::unique_ptr<Stream> stream = device->make_stream();
      const Log log(mesh.rank(), level);
      Context context(options, mesh, *stream, log);
      error = message_of([&] { const Trainer trainer(context, Model(shares)); });
    });
    const std::string output = testing::internal::GetCapturedStdout();
    EXPECT_EQ(error, "");
    return output;
  };
  EXPECT_THAT(log_of(LogLevel::debug),
              HasSubstr("parameters that several ops share: 'same.weight' (same/linear, "
                        "same/linear#2), 'same.bias' (same/linear, same/linear#2)\n"));
  EXPECT_THAT(log_of(LogLevel::info), testing::Not(HasSubstr("several ops share")));
}

TEST(Trainer, TooFewBlocksForThePipelineIsAConfigurationError) {
  EXPECT_THAT(configuration_error({1, 8, 1, 1, 1, false}, [](Graph& g) { return mlp(g, 1); }),
              HasSubstr("too few for 8 pipeline stages"));
}

TEST(Trainer, AnInputWhoseDim0IsNotTheMicroBatchIsAConfigurationError) {
  EXPECT_THAT(
      configuration_error({1, 1, 1, 1, 2, false}, [](Graph& g) { return mlp(g, 3); }),
      AllOf(HasSubstr("input 'x'"), HasSubstr("(3, 8)"), HasSubstr("--micro-batch-size 2")));
}

TEST(Trainer, AnInputThatNoOpTakesIsAConfigurationError) {
  EXPECT_THAT(configuration_error({1, 2, 1, 1, 1, false},
                                  [](Graph& g) {
                                    g.input("forgotten", {1, 4});
                                    return mlp(g, 1);
                                  }),
              HasSubstr("input 'forgotten' is used by no op"));
}

TEST(Trainer, AModelWithoutAResultIsAConfigurationError) {
  EXPECT_THAT(configuration_error({1, 1, 1, 1, 1, false},
                                  [](Graph& g) {
                                    mlp(g, 1);
                                    return Value();
                                  }),
              HasSubstr("returned an empty Value: return the loss"));
}

/// Written for f32 alone.
class OnlyF32 final : public Op {
 public:
  std::string name() const override { return "only_f32"; }
  Outputs infer(const Specs& in) const override { return {in[0]}; }
  void forward(Exec& e) const override { e.stream().copy(e.output(0), e.input(0)); }
  void backward(Exec& e) const override { e.stream().copy(e.grad_input(0), e.grad_output(0)); }
};

TEST(Trainer, AnOpThatDoesNotWorkInBf16IsAConfigurationErrorThatNamesIt) {
  const auto model = [](Graph& g) {
    const Value x = linear(g.input("x", {1, width}), "layer", width);
    return squared_error(g.scope("mine", [&] { return x.apply<OnlyF32>(); }),
                         g.input("y", {1, width}));
  };
  EXPECT_THAT(configuration_error({2, 1, 1, 1, 1, false, true}, model),
              AllOf(HasSubstr("1 problem"), HasSubstr("op 'only_f32' in scope 'mine'"),
                    HasSubstr("--bf16")));
  on_ranks({}, options_for({}),
           [&](Context& context) { EXPECT_NO_THROW(Trainer(context, model)); });
}

}  // namespace
}  // namespace trireme
