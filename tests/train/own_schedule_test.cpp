// A schedule of a program's own trains to the bits of the built-in ones, and what it may not do is
// refused on all ranks.
#include <atomic>
#include <mutex>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/pipeline/schedule.h"

#include "tests/support/message_of.h"
#include "tests/train/sines.h"

namespace trireme {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// All forwards, then all input gradients, then all weight gradients.
WorkOrder late_weights(const PipelineShape& shape, int /*stage*/) {
  WorkOrder order;
  for (const WorkKind kind :
       {WorkKind::forward, WorkKind::backward_input, WorkKind::backward_weight})
    for (int c = 0; c < shape.chunks; ++c)
      for (Index i = 0; i < shape.micro_batches; ++i)
        order.push_back({kind, kind == WorkKind::forward ? c : shape.chunks - 1 - c, i});
  return order;
}

/// Whole backwards on the last stage, halves on the others.
WorkOrder mixed(const PipelineShape& shape, int stage) {
  return stage == shape.stages - 1 ? work_order(ScheduleKind::gpipe, shape, stage)
                                   : late_weights(shape, stage);
}

/// Loss and gradient norm of five steps.
std::vector<double> train_by(const Layout& layout, const ScheduleFunction& own) {
  Options options = options_for(layout);
  options.own_schedule = own;
  std::vector<double> numbers;
  on_ranks(layout, options, [&](Context& context) {
    Trainer trainer(context, Model([&](Graph& g) { return mlp(g, layout.micro_batch); }));
    Sines data;
    for (int i = 0; i < 5; ++i) {
      const StepMetrics step = trainer.step(data);
      if (context.mesh().rank() != 0) continue;
      numbers.push_back(step.loss);
      numbers.push_back(step.grad_norm);
    }
  });
  return numbers;
}

TEST(TrainedOwnSchedule, GivesTheBitsOfTheBuiltInOnes) {
  for (const Layout& layout :
       {Layout{1, 2, 1, 1, 1}, Layout{1, 4, 1, 1, 1}, Layout{2, 2, 1, 1, 1, true},
        Layout{1, 2, 2, 1, 2}, Layout{1, 2, 1, 2, 1}, Layout{1, 1, 1, 1, 2}}) {
    SCOPED_TRACE(testing::PrintToString(layout));
    const std::vector<double> expected = train_by(layout, {});
    EXPECT_EQ(train_by(layout, late_weights), expected);
    EXPECT_EQ(train_by(layout, mixed), expected);
  }
}

std::string refused(const ScheduleFunction& own) {
  const Layout layout{1, 2, 1, 1, 4};
  Options options = options_for(layout);
  options.own_schedule = own;
  std::mutex mutex;
  std::vector<std::string> messages;
  on_ranks(layout, options, [&](Context& context) {
    const std::string message = message_of([&] {
      Trainer trainer(context, Model([&](Graph& g) { return mlp(g, layout.micro_batch); }));
    });
    const std::lock_guard lock(mutex);
    messages.push_back(message);
  });
  EXPECT_EQ(messages, std::vector<std::string>(2, messages.at(0)));
  return messages.at(0);
}

TEST(TrainedOwnSchedule, IsRefusedOnAllRanksBeforeAnythingIsAllocated) {
  EXPECT_THAT(
      refused([](const PipelineShape&, int) {
        return WorkOrder{{WorkKind::forward, 0, 0}, {WorkKind::forward, 0, 1}};
      }),
      AllOf(HasSubstr("1 problem"), HasSubstr("own_schedule, for 2 stages x 1 chunks x 2 micro-"),
            HasSubstr("stage 0 lacks B0")));
}

TEST(TrainedOwnSchedule, WhoseStagesWaitForEachOtherIsRefusedWithOneShape) {
  EXPECT_THAT(
      refused([](const PipelineShape&, int stage) {
        const Work f0{WorkKind::forward, 0, 0}, f1{WorkKind::forward, 0, 1};
        const Work b0{WorkKind::backward, 0, 0}, b1{WorkKind::backward, 0, 1};
        return stage == 0 ? WorkOrder{f0, b0, f1, b1} : WorkOrder{f0, f1, b0, b1};
      }),
      HasSubstr("own_schedule: the work orders of 2 stages x 1 chunks x 2 micro-batches wait"));
}

TEST(TrainedOwnSchedule, ThatDiffersBetweenRanksIsRefused) {
  std::atomic<int> calls = 0;
  thread_local int mine = -1;
  EXPECT_THAT(refused([&](const PipelineShape& shape, int stage) {
                if (mine < 0) mine = calls++;
                return mine % 2 == 0 ? work_order(ScheduleKind::gpipe, shape, stage)
                                     : work_order(ScheduleKind::one_f_one_b, shape, stage);
              }),
              HasSubstr("schedule: stage 1 from work 0"));
}

}  // namespace
}  // namespace trireme
