// Trainer::fit when gradients are not finite any more: when it stops, which states are saved, and
// which older ones stay.
#include <atomic>
#include <filesystem>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/kernels/device.h"
#include "trireme/train/trainer.h"

#include "runtime/store/steps.h"
#include "tests/support/checkpoint_state.h"
#include "tests/support/scratch_directory.h"
#include "tests/train/two_blocks.h"

namespace trireme {
namespace {

using test::committed_steps;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr Index diverging_width = two_blocks_width;

/// Some steps of it have a loss that is not a number.
class Data : public DataSource {
 public:
  explicit Data(std::set<Index> bad_steps) : bad_steps_(std::move(bad_steps)) {}
  Index fill(Index sample, std::span<const Tensor> out) override {
    for (const Tensor& tensor : out) {
      if (tensor.data == nullptr) continue;
      std::fill_n(tensor.as<float>(), diverging_width, 1.0f + static_cast<float>(sample % 5));
      if (bad_steps_.contains(sample / 8 + 1)) tensor.as<float>()[0] = std::nanf("");
    }
    return diverging_width;
  }

 private:
  std::set<Index> bad_steps_;
};

struct Outcome {
  std::atomic<int> finished = 0, stopped = 0, diverged = 0;  // ranks
  std::atomic<Index> steps = 0;                              // of all ranks together
  std::string message;                                       // of rank 0
};

class DivergingFit : public testing::Test {
 protected:
  DivergingFit() {
    options_.train_iters = options_.learning_rate.decay_iters = 20;
    options_.max_skipped = 3;
  }
  std::string root() const { return folder_ / "run"; }
  void save_every(Index interval) {
    options_.checkpoint.save = root();
    options_.checkpoint.save_interval = interval;
    options_.checkpoint.async_save = false;
  }
  void stop_after(Index step) { stop_after_ = step; }

  void fit(const MeshShape& shape, const std::set<Index>& bad_steps, Outcome& outcome) {
    run_on_threads(shape, [&](Mesh& mesh) {
      const std::unique_ptr<Device> device = open_cpu();
      const std::unique_ptr<Stream> stream = device->make_stream();
      const Log log(mesh.rank(), LogLevel::quiet);
      const Trainer* trained = nullptr;
      const auto reason = [&] { return trained->steps_done() + 1 >= stop_after_ ? "test" : ""; };
      Context context(options_, mesh, *stream, log, {}, reason);
      Trainer trainer(context, Model(two_blocks));
      trained = &trainer;
      Data data(bad_steps);
      try {
        trainer.fit(data);
        ++outcome.finished;
      } catch (const Stopped&) {
        ++outcome.stopped;
      } catch (const JobError& error) {
        EXPECT_EQ(error.code(), ExitCode::diverged) << error.what();
        if (mesh.rank() == 0) outcome.message = error.what();
        ++outcome.diverged;
      }
      outcome.steps += trainer.steps_done();
    });
  }

  ScratchDirectory folder_;
  Options options_;
  Index stop_after_ = 1000;
};

TEST_F(DivergingFit, StopsAllRanksAfterSoManySkippedStepsInARow) {
  options_.tensor_size = options_.pipeline_size = 2;
  Outcome outcome;
  fit(MeshShape(2, 2, 2), {3, 4, 6, 7, 8, 9, 10}, outcome);
  EXPECT_EQ(outcome.diverged, 8);
  EXPECT_EQ(outcome.steps, 8 * 8);
  EXPECT_EQ(
      outcome.message,
      "stopped after step 8: the gradients of the last 3 steps were not finite (--max-skipped "
      "3); the last update was that of step 5; this job has no checkpoint");
}

TEST_F(DivergingFit, SaysWhenThereWasNoUpdateAtAll) {
  options_.max_skipped = 1;
  Outcome outcome;
  fit(MeshShape(1, 1, 1), {1}, outcome);
  EXPECT_THAT(outcome.message,
              AllOf(HasSubstr("of the last step were"), HasSubstr("no step has made an update")));
}

TEST_F(DivergingFit, StepMetricsCountSkippedStepsInARow) {
  run_on_threads(MeshShape(2, 1, 1), [&](Mesh& mesh) {
    const std::unique_ptr<Device> device = open_cpu();
    const std::unique_ptr<Stream> stream = device->make_stream();
    const Log log(mesh.rank(), LogLevel::quiet);
    Context context(options_, mesh, *stream, log);
    Trainer trainer(context, Model(two_blocks));
    Data data({2, 3, 4, 5, 7});
    for (const Index in_row :
         {0, 1, 2, 3, 4, 0, 1, 0})  // the caller of step() decides when it is too many
      EXPECT_EQ(trainer.step(data).skipped_in_row, in_row);
  });
}

TEST_F(DivergingFit, SavesNoStateAfterWhichGradientsAreNotFinite) {
  save_every(2);
  options_.train_iters = 9;
  Outcome outcome;
  fit(MeshShape(2, 1, 1), {4, 5, 9}, outcome);
  EXPECT_EQ(outcome.finished, 2);
  EXPECT_THAT(committed_steps(root()), ElementsAre(8, 6, 2));
  fit(MeshShape(2, 1, 1), {2, 3}, outcome);  // from scratch again; step 2 comes after step 3
  EXPECT_EQ(outcome.finished, 4);
  EXPECT_THAT(committed_steps(root()), ElementsAre(9, 8, 6, 4));
}

TEST_F(DivergingFit, KeepsWhatIsOlderUntilTheNextUpdate) {
  save_every(2);
  options_.checkpoint.keep_last = 1;
  Outcome outcome;
  fit(MeshShape(2, 1, 1), {6, 7, 8}, outcome);  // 5 has shown that the state of step 4 is good
  EXPECT_THAT(committed_steps(root()), ElementsAre(4));
  EXPECT_THAT(outcome.message, HasSubstr("go back to the newest checkpoint, that of step 4, with "
                                         "--load " +
                                         root() + " and"));

  fit(MeshShape(2, 1, 1), {5, 6, 7}, outcome);
  EXPECT_EQ(outcome.diverged, 4);
  EXPECT_THAT(committed_steps(root()), ElementsAre(4, 2));
  EXPECT_THAT(outcome.message, HasSubstr("the last update was that of step 4; the newest "
                                         "checkpoint is that of the same step and leads here"));

  options_.checkpoint.load = root();  // without --max-skipped in a row it continues
  fit(MeshShape(2, 1, 1), {5, 6}, outcome);
  EXPECT_EQ(outcome.finished, 2);
  EXPECT_THAT(committed_steps(root()), ElementsAre(20));
}

TEST_F(DivergingFit, StoppedAmongSkippedStepsItResumesBitByBit) {
  const std::set<Index> bad = {4, 5, 6, 12};
  options_.max_skipped = 4;
  Outcome outcome;
  save_every(20);
  fit(MeshShape(2, 1, 1), bad, outcome);
  const auto straight = test::read_checkpoint(root() + "/" + step_name(20));
  std::filesystem::remove_all(root());

  save_every(2);
  options_.checkpoint.keep_last = 1;
  options_.checkpoint.load = root();
  stop_after(5);
  fit(MeshShape(2, 1, 1), bad, outcome);
  EXPECT_EQ(outcome.stopped, 2);
  EXPECT_THAT(committed_steps(root()), ElementsAre(3, 2));  // 2 is not pushed out by 3
  stop_after(6);
  fit(MeshShape(2, 1, 1), bad, outcome);
  EXPECT_EQ(outcome.stopped, 4);
  EXPECT_THAT(committed_steps(root()), ElementsAre(3, 2));
  stop_after(1000);
  fit(MeshShape(2, 1, 1), bad, outcome);
  EXPECT_EQ(outcome.finished, 4);
  EXPECT_THAT(committed_steps(root()), ElementsAre(20));
  EXPECT_EQ(test::first_difference(straight, test::read_checkpoint(root() + "/" + step_name(20))),
            "");
}

TEST_F(DivergingFit, ARestartedJobComesToTheSameEnd) {
  save_every(2);
  options_.checkpoint.load = root();
  for (int job = 0; job < 2; ++job) {
    Outcome outcome;
    fit(MeshShape(2, 1, 1), {6, 7, 8}, outcome);
    EXPECT_EQ(outcome.diverged, 2);
    EXPECT_EQ(outcome.steps, 2 * 8);
    EXPECT_THAT(committed_steps(root()), ElementsAre(4, 2));
  }
}

}  // namespace
}  // namespace trireme
