// The records of a fit, as a sink gets them, and sinks that fail.
#include "runtime/train/sinks/sinks.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/kernels/device.h"

#include "tests/support/message_of.h"
#include "tests/support/scratch_directory.h"
#include "tests/train/two_blocks.h"

namespace trireme::train {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr Index samples_of_a_step = 8;

/// Every sample of a step has one value.
class ValueOfStep : public DataSource {
 public:
  using Value = std::function<float(Index step)>;
  explicit ValueOfStep(Value value) : value_(std::move(value)) {}
  Index fill(Index sample, std::span<const Tensor> out) override {
    for (const Tensor& tensor : out)
      if (tensor.data != nullptr)
        std::fill_n(tensor.as<float>(), two_blocks_width, value_(sample / samples_of_a_step + 1));
    return two_blocks_width;
  }

 private:
  Value value_;
};

/// Lists what it gets; of steps those that tell of an evaluation or a spike, and counts all.
struct Listed {
  std::vector<std::string> events;
  Index steps = 0;
};
class Listing final : public Sink {
 public:
  explicit Listing(Listed& listed) : listed_(listed) {}
  void begin(const RunRecord& run) override {
    add(str("begin after ", run.resumed_after, " of ", run.train_iters));
    EXPECT_GT(run.flops_per_step, 0);
    EXPECT_GT(run.peak_flops_per_s, 0);
  }
  void take(const StepRecord& step) override {
    EXPECT_EQ(step.step, ++listed_.steps);
    if (step.valid_loss) add(str("evaluation ", step.step));
    if (step.loss_spike) add(str("spike ", step.step));
  }
  void take(const EvaluationRecord& evaluation) override { add(evaluation.source); }
  void take(const SaveRecord& save) override {
    add(str(save.error.empty() ? "saved " : "not saved ", save.step, " after ", save.step_before));
  }
  void take(const NoteRecord& note) override {
    add(str("note ", note.step, ": ", note.text.substr(0, note.text.find(' '))));
  }

 private:
  void add(std::string event) { listed_.events.push_back(std::move(event)); }
  Listed& listed_;
};

/// Throws at its third step.
class Failing final : public Sink {
 public:
  explicit Failing(int& calls) : calls_(calls) {}
  using Sink::take;
  void take(const StepRecord&) override {
    if (++calls_ == 3) throw Error("it broke");
  }

 private:
  int& calls_;
};

class SinksOfFit : public testing::Test {
 protected:
  SinksOfFit() {
    options_.global_batch_size = samples_of_a_step;
    options_.train_iters = options_.learning_rate.decay_iters = 30;
    options_.learning_rate.lr = options_.learning_rate.min_lr = 1e-9;
  }

  /// fit() on two ranks, both of which add the sinks. Returns what it throws, of rank 0.
  std::string fit(const ValueOfStep::Value& value, Index stop_at = 1000) {
    std::string thrown;
    run_on_threads(MeshShape(2, 1, 1), [&](Mesh& mesh) {
      const std::unique_ptr<Device> device = open_cpu();
      const std::unique_ptr<Stream> stream = device->make_stream();
      const Log log(mesh.rank(), LogLevel::quiet);
      const Trainer* trained = nullptr;
      const auto reason = [&] { return trained->steps_done() + 1 >= stop_at ? "SIGTERM" : ""; };
      Context context(options_, mesh, *stream, log, {}, reason);
      Trainer trainer(context, Model(two_blocks));
      trained = &trainer;
      if (fails_)
        sinks_of(trainer).add("a failing sink", std::make_unique<Failing>(calls_of_failing_));
      sinks_of(trainer).add("a list", std::make_unique<Listing>(listed_));
      ValueOfStep data(value), validation([](Index) { return 1.0f; });
      const std::string mine = message_of([&] {
        try {
          trainer.fit(data, &validation);
        } catch (const Stopped&) {
        }
      });
      if (mesh.rank() == 0) thrown = mine;
    });
    return thrown;
  }

  const ScratchDirectory folder_;
  Options options_;
  Listed listed_;
  bool fails_ = false;
  int calls_of_failing_ = 0;
};

TEST_F(SinksOfFit, GetEveryRecordOnceAndInOrder) {
  options_.eval_interval = 10;
  options_.eval_iters = 1;
  options_.checkpoint.save = folder_ / "run";
  options_.checkpoint.save_interval = 20;
  options_.checkpoint.async_save = false;
  EXPECT_EQ(fit([](Index step) { return step >= 24 && step <= 28 ? 10.0f : 1.0f; }), "");
  EXPECT_EQ(listed_.steps, 30);
  EXPECT_THAT(listed_.events, ElementsAre("begin after 0 of 30", "evaluation 10", "evaluation 20",
                                          "saved 20 after -1", "note 28: loss", "spike 28",
                                          "evaluation 30", "saved 30 after 20"));
}

TEST_F(SinksOfFit, HearOfAStop) {
  options_.checkpoint.save = folder_ / "run";
  fit([](Index) { return 1.0f; }, 4);
  EXPECT_EQ(listed_.steps, 4);
  EXPECT_THAT(listed_.events,
              ElementsAre("begin after 0 of 30", "saved 4 after -1", "note 4: SIGTERM:"));
}

TEST_F(SinksOfFit, HearOfADivergence) {
  options_.max_skipped = 2;
  EXPECT_THAT(fit([](Index step) { return step >= 3 ? std::nanf("") : 1.0f; }),
              HasSubstr("stopped after step 4: the gradients"));
  EXPECT_THAT(listed_.events, ElementsAre("begin after 0 of 30", "note 4: stopped"));
}

TEST_F(SinksOfFit, ThatThrowAreDroppedWithAWarning) {
  fails_ = true;
  testing::internal::CaptureStderr();
  EXPECT_EQ(fit([](Index) { return 1.0f; }), "");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "trireme[rank 0] warning: a failing sink has failed and gets no more records of this "
            "job: it broke\n");
  EXPECT_EQ(calls_of_failing_, 3);
  EXPECT_EQ(listed_.steps, 30);
}

/// Steps without metrics would be lost silently.
TEST(Sinks, MetricsThatCannotBeWrittenEndTheJob) {
  Options options;
  options.metrics = "/dev/full";
  run_on_threads(MeshShape(1, 1, 1), [&](Mesh& mesh) {
    const std::unique_ptr<Device> device = open_cpu();
    const std::unique_ptr<Stream> stream = device->make_stream();
    const Log log(mesh.rank(), LogLevel::quiet);
    Context context(options, mesh, *stream, log);
    Sinks sinks = make_sinks(context);
    for (int time = 0; time < 2; ++time) open_metrics(context, sinks);  // once
    StepRecord step;
    step.step = 1;
    for (int time = 0; time < 2; ++time)
      EXPECT_THAT(message_of([&] { sinks.take(step); }), HasSubstr("--metrics /dev/full: "));
  });
}

}  // namespace
}  // namespace trireme::train
