// Graph::metric: sums beside the loss, alike on every layout, in steps, evaluations and files.
#include <cmath>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/support/message_of.h"
#include "tests/support/scratch_directory.h"
#include "tests/train/sines.h"

namespace trireme {
namespace {

using testing::HasSubstr;

Value absolute_error(Value x, Value target) {
  return pointwise_sum(
      "absolute_error", [](float a, float b) { return std::fabs(a - b); },
      [](float a, float b) { return a < b ? -1.0f : 1.0f; }, x, target);
}

/// mlp() with a metric of its result, one of an inner value (on an earlier stage), and the loss.
Value measured(Graph& g, Index batch) {
  Value x = g.input("x", {batch, width});
  for (int i = 0; i < 4; ++i) {
    x = g.block("block", i, [&] { return mlp_block(x); });
    if (i == 0) g.metric("inner", sum(x * x));
  }
  const Value y = g.input("y", {batch, width});
  g.metric("error", absolute_error(x, y));
  const Value loss = squared_error(x, y);
  g.metric("loss_again", loss);
  return loss;
}

struct MetricsOutcome {
  std::vector<StepMetrics> steps;
  std::vector<std::vector<double>> metrics;  // of steps, then of the evaluation
  double evaluation = 0;
};

std::vector<double> values_of(std::span<const Metric> metrics) {
  std::vector<double> values;
  for (const Metric& metric : metrics) values.push_back(metric.value);
  return values;
}

/// Four steps and an evaluation on rank `rank`.
MetricsOutcome train_measured(const Layout& layout, const Forward& loss, int rank = 0,
                              const ScheduleFunction& own = {}) {
  MetricsOutcome outcome;
  Options options = options_for(layout);
  options.own_schedule = own;
  on_ranks(layout, options, [&](Context& context) {
    Trainer trainer(context, Model(loss));
    Sines data;
    MetricsOutcome mine;
    for (int i = 0; i < 4; ++i) {
      mine.steps.push_back(trainer.step(data));
      mine.metrics.push_back(values_of(mine.steps.back().metrics));
    }
    mine.evaluation = trainer.evaluate(data, 3);
    mine.metrics.push_back(values_of(trainer.evaluation_metrics()));
    if (context.mesh().rank() == rank) outcome = mine;
  });
  return outcome;
}

MetricsOutcome train_measured(const Layout& layout, int rank = 0,
                              const ScheduleFunction& own = {}) {
  return train_measured(
      layout, [&](Graph& g) { return measured(g, layout.micro_batch); }, rank, own);
}

void expect_near(const MetricsOutcome& other, const MetricsOutcome& one) {
  ASSERT_EQ(other.metrics.size(), 5u);
  for (std::size_t i = 0; i < 5; ++i) {
    ASSERT_EQ(other.metrics[i].size(), 3u);
    for (std::size_t k = 0; k < 3; ++k)
      EXPECT_NEAR(other.metrics[i][k] / one.metrics[i][k], 1, 5e-7) << "step " << i << ", " << k;
    EXPECT_EQ(other.metrics[i][2], i < 4 ? other.steps[i].loss : other.evaluation);
  }
}

TEST(ModelMetrics, AreTheSameOnEveryLayoutAndRank) {
  const MetricsOutcome one = train_measured({1, 1, 1, 1, 8});
  for (const Layout& layout :
       {Layout{1, 1, 1, 1, 2}, Layout{4, 1, 1, 1, 1, true}, Layout{1, 2, 1, 1, 1},
        Layout{1, 4, 1, 1, 2}, Layout{1, 2, 1, 2, 2}, Layout{1, 1, 2, 1, 4},
        Layout{2, 2, 2, 2, 1, true}, Layout{1, 2, 1, 2, 1, false, false, true}}) {
    SCOPED_TRACE(testing::PrintToString(layout));
    expect_near(train_measured(layout), one);
    const int last = layout.data * layout.pipeline * layout.tensor - 1;
    expect_near(train_measured(layout, last), one);
  }
}

TEST(ModelMetrics, AreTheSameWithBackwardsInHalves) {
  const auto halves = [](const PipelineShape& shape, int) {
    WorkOrder order;
    for (const WorkKind kind :
         {WorkKind::forward, WorkKind::backward_input, WorkKind::backward_weight})
      for (Index i = 0; i < shape.micro_batches; ++i) order.push_back({kind, 0, i});
    return order;
  };
  const Layout layout{1, 2, 1, 1, 1};
  EXPECT_EQ(train_measured(layout, 0, halves).metrics, train_measured(layout).metrics);
}

TEST(ModelMetrics, ChangeNothingOfTheTraining) {
  for (const Layout& layout : {Layout{1, 1, 1, 1, 2}, Layout{2, 2, 1, 1, 1}}) {
    const MetricsOutcome with = train_measured(layout);
    const MetricsOutcome without =
        train_measured(layout, [&](Graph& g) { return mlp(g, layout.micro_batch); });
    EXPECT_EQ(with.evaluation, without.evaluation);
    for (std::size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(with.steps[i].loss, without.steps[i].loss);
      EXPECT_EQ(with.steps[i].grad_norm, without.steps[i].grad_norm);
      EXPECT_TRUE(without.steps[i].metrics.empty());
    }
  }
}

TEST(ModelMetrics, AreMeansOverTheTargets) {
  // The model is x + offset with offset 0: the mean of |x - sin x| over the first 8 samples.
  double error = 0;
  for (Index sample = 0; sample < 8; ++sample) {
    float x[width], y[width];
    const Tensor row[] = {{x, {width}}, {y, {width}}};
    Sines().fill(sample, row);
    for (Index i = 0; i < width; ++i)
      error += std::fabs(static_cast<double>(x[i]) - static_cast<double>(y[i])) / (8 * width);
  }
  const MetricsOutcome outcome = train_measured({2, 1, 1, 1, 2}, [](Graph& g) {
    const Value x = g.input("x", {2, width});
    const Value moved =
        add_positions(x, g.parameter("offset", {1, width}, replicated(), zeros()), 1);
    const Value y = g.input("y", {2, width});
    g.metric("error", absolute_error(moved, y));
    return squared_error(moved, y);
  });
  EXPECT_NEAR(outcome.metrics.at(0).at(0), error, 1e-6 * error);
}

TEST(ModelMetrics, AreWrittenToTheFileAndOfEvaluationsBesideThem) {
  const ScratchDirectory folder;
  const Layout layout{1, 2, 1, 1, 2};
  Options options = options_for(layout);
  options.eval_interval = 5;
  options.eval_iters = 1;
  options.metrics = folder / "metrics.jsonl";
  on_ranks(layout, options, [&](Context& context) {
    Model model([](Graph& g) { return measured(g, 2); });
    model.evaluation = [](Graph& g) {
      const Value x = mlp_blocks(g, 2), y = g.input("y", {2, width});
      g.metric("only_here", absolute_error(x, y));
      return squared_error(x, y);
    };
    Trainer trainer(context, model);
    Sines data;
    trainer.fit(data, &data);
  });
  std::ifstream file(options.metrics);
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(lines.size(), 5u);
  for (const nlohmann::json& line : lines) {
    EXPECT_GT(line["error"].get<double>(), 0);
    EXPECT_GT(line["inner"].get<double>(), 0);
    EXPECT_EQ(line["loss_again"], line["loss"]);
    EXPECT_EQ(line.contains("valid_only_here"), line["step"] == 5);
    EXPECT_FALSE(line.contains("valid_error"));
  }
  EXPECT_GT(lines[4]["valid_only_here"].get<double>(), 0);
}

std::string refused(const std::function<void(Graph&, Value)>& add) {
  std::string message;
  const Layout layout{1, 1, 1, 1, 2};
  on_ranks(layout, options_for(layout), [&](Context& context) {
    message = message_of([&] {
      Trainer trainer(context, Model([&](Graph& g) {
                        const Value loss = mlp(g, 2);
                        add(g, loss);
                        return loss;
                      }));
    });
  });
  return message;
}

TEST(ModelMetrics, ThatCannotBeAreRefused) {
  const auto named = [](const std::string& name) {
    return refused([&](Graph& g, Value loss) { g.metric(name, loss); });
  };
  for (const char* name :
       {"", "Accuracy", "a b", "a-name-with-a-dash", "a_name_of_more_than_24_ch"})
    EXPECT_THAT(named(name), HasSubstr(str("metric '", name, "': a name is 1 to 24 small")));
  for (const char* taken : {"grad_norm", "evaluated"})
    EXPECT_THAT(named(taken), HasSubstr("has the name of a field of lines of --metrics"));
  EXPECT_THAT(named("valid_error"), HasSubstr("begin with 'valid_'"));
  EXPECT_THAT(refused([](Graph& g, Value loss) {
                g.metric("twice", loss);
                g.metric("twice", loss);
              }),
              HasSubstr("metric 'twice' is registered twice"));
  EXPECT_THAT(
      refused([](Graph& g, Value) {
        g.metric("wide", g.input("w", {2, 3}));
      }),
      HasSubstr("metric 'wide' is f32 (2, 3), replicated on the tensor axis: it has to be one"));
  EXPECT_THAT(refused([](Graph& g, Value) { g.metric("empty", Value()); }),
              HasSubstr("metric 'empty' is a value of another graph"));
  EXPECT_THAT(refused([](Graph& g, Value loss) {
                for (int i = 0; i < 17; ++i) g.metric(str("m", i), loss);
              }),
              HasSubstr("metric 'm16': a model has at most 16"));
}

}  // namespace
}  // namespace trireme
