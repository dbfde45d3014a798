// Trainer::fit on ranks as threads, of which one is asked to stop: all stop after the same step.
#include <atomic>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trireme/kernels/device.h"
#include "trireme/train/trainer.h"

#include "tests/support/scratch_directory.h"
#include "tests/train/two_blocks.h"

namespace trireme {
namespace {

constexpr Index ones_width = two_blocks_width;

class OnesUntilStop : public DataSource {
 public:
  Index fill(Index, std::span<const Tensor> out) override {
    for (const Tensor& tensor : out)
      if (tensor.data != nullptr) std::fill_n(tensor.as<float>(), ones_width, 1.0f);
    return ones_width;
  }
};

struct StopOutcome {
  std::atomic<int> stopped = 0, finished = 0;  // ranks
  std::atomic<Index> steps = 0;                // of all ranks together
};

/// fit() of 5 steps on 2 x 2 x 2 ranks; `voter` is asked to stop in step `at`.
void fit(int voter, Index at, const std::string& metrics, StopOutcome& outcome,
         LogLevel level = LogLevel::quiet) {
  Options options;
  options.tensor_size = options.pipeline_size = 2;
  options.train_iters = 5;
  options.learning_rate.decay_iters = 5;
  options.metrics = metrics;
  run_on_threads(MeshShape(2, 2, 2), [&](Mesh& mesh) {
    const std::unique_ptr<Device> device = open_cpu();
    const std::unique_ptr<Stream> stream = device->make_stream();
    const Log log(mesh.rank(), level);
    const Trainer* trained = nullptr;
    const auto reason = [&]() -> std::string_view {
      return mesh.rank() == voter && trained->steps_done() + 1 >= at ? "SIGTERM" : "";
    };
    Context context(options, mesh, *stream, log, {}, reason);
    Trainer trainer(context, Model(two_blocks));
    trained = &trainer;
    OnesUntilStop data;
    try {
      trainer.fit(data);
      ++outcome.finished;
    } catch (const Stopped&) {
      ++outcome.stopped;
    }
    outcome.steps += trainer.steps_done();
  });
}

Index count_lines_of(const std::string& path) {
  std::ifstream in(path);
  return std::count(std::istreambuf_iterator<char>(in), {}, '\n');
}

TEST(StoppingFit, OneVoteStopsAllRanksAfterTheSameStep) {
  const ScratchDirectory folder;
  const std::string metrics = folder / "metrics.jsonl";
  for (const int voter : {0, 3, 7}) {
    std::filesystem::remove(metrics);
    StopOutcome outcome;
    fit(voter, 3, metrics, outcome);
    EXPECT_EQ(outcome.stopped, 8);
    EXPECT_EQ(outcome.steps, 8 * 3);
    EXPECT_EQ(count_lines_of(metrics), 3);
  }
}

TEST(StoppingFit, SaysOnceBeforeItStopsThatItWill) {
  const ScratchDirectory folder;
  for (const int voter : {0, 3}) {
    StopOutcome outcome;
    testing::internal::CaptureStdout();
    fit(voter, 3, folder / "metrics.jsonl", outcome, LogLevel::info);
    const std::string output = testing::internal::GetCapturedStdout();
    const std::string stopping =
        (voter == 0 ? "] SIGTERM" : "] another rank was asked to stop") +
        std::string(": stopping after step 3; the newest state will be saved\n");
    const std::size_t first = output.find(stopping);
    ASSERT_NE(first, std::string::npos) << output;
    EXPECT_EQ(output.find("stopping after", first + stopping.size()), std::string::npos) << output;
    EXPECT_LT(first, output.find(": stopped after step 3")) << output;
  }
}

// The step in which a signal arrives may take minutes: the log must not wait for its end.
TEST(StoppingFit, SaysSoInTheStepInWhichItIsAsked) {
  const ScratchDirectory folder;
  Options options;
  options.train_iters = options.learning_rate.decay_iters = 5;
  options.log_interval = 1;
  options.metrics = folder / "metrics.jsonl";
  testing::internal::CaptureStdout();
  run_on_threads(MeshShape(1, 1, 1), [&](Mesh& mesh) {
    const std::unique_ptr<Device> device = open_cpu();
    const std::unique_ptr<Stream> stream = device->make_stream();
    const Log log(mesh.rank(), LogLevel::info);
    int polls = 0;  // before step 1, with its data, then between its ops
    const auto reason = [&] { return ++polls > 2 ? "SIGUSR1" : ""; };
    Context context(options, mesh, *stream, log, {}, reason);
    Trainer trainer(context, Model(two_blocks));
    OnesUntilStop data;
    EXPECT_THROW(trainer.fit(data), Stopped);
    EXPECT_EQ(trainer.steps_done(), 1);
  });
  const std::string output = testing::internal::GetCapturedStdout();
  const std::size_t said = output.find("] SIGUSR1: stopping after step 1;"),
                    row = output.find("\n       1 ");  // of the step that has ended
  ASSERT_NE(said, std::string::npos) << output;
  ASSERT_NE(row, std::string::npos) << output;
  EXPECT_LT(said, row) << output;
}

/// Counts what is read of it.
class Counted : public OnesUntilStop {
 public:
  explicit Counted(std::atomic<Index>& samples) : samples_(samples) {}
  Index fill(Index sample, std::span<const Tensor> out) override {
    ++samples_;
    return OnesUntilStop::fill(sample, out);
  }

 private:
  std::atomic<Index>& samples_;
};

TEST(StoppingFit, AVoteInAnEvaluationEndsItAndTheStateIsSavedAtOnce) {
  const ScratchDirectory folder;
  Options options;
  options.pipeline_size = 2;
  options.train_iters = options.learning_rate.decay_iters = 5;
  options.eval_interval = 2;
  options.eval_iters = 1000000;  // hours
  options.metrics = folder / "metrics.jsonl";
  options.checkpoint.save = folder / "run";
  std::atomic<int> stopped = 0;
  std::atomic<Index> evaluated = 0;  // samples
  run_on_threads(MeshShape(2, 2, 1), [&](Mesh& mesh) {
    const std::unique_ptr<Device> device = open_cpu();
    const std::unique_ptr<Stream> stream = device->make_stream();
    const Log log(mesh.rank(), LogLevel::quiet);
    const auto reason = [&] { return mesh.rank() == 2 && evaluated > 100 ? "SIGTERM" : ""; };
    Context context(options, mesh, *stream, log, {}, reason);
    Trainer trainer(context, Model(two_blocks));
    OnesUntilStop data;
    Counted validation(evaluated);
    EXPECT_THROW(trainer.fit(data, &validation), Stopped);
    EXPECT_EQ(trainer.steps_done(), 2);
    ++stopped;
  });
  EXPECT_EQ(stopped, 4);
  EXPECT_GT(evaluated, 100);
  EXPECT_TRUE(std::filesystem::exists(folder / "run/step-000002"));
  EXPECT_EQ(count_lines_of(options.metrics), 2);
  EXPECT_EQ(folder.read("metrics.jsonl").find("valid_loss"), std::string::npos);
}

TEST(StoppingFit, AVoteAfterTrainingEndsAnEvaluationOfAStateThatIsSaved) {
  for (const bool saves : {false, true}) {
    const ScratchDirectory folder;
    Options options;
    options.train_iters = options.learning_rate.decay_iters = 2;
    if (saves) options.checkpoint.save = folder / "run";
    std::atomic<Index> evaluated = 0;  // samples
    run_on_threads(MeshShape(2, 1, 1), [&](Mesh& mesh) {
      const std::unique_ptr<Device> device = open_cpu();
      const std::unique_ptr<Stream> stream = device->make_stream();
      const Log log(mesh.rank(), LogLevel::quiet);
      const auto reason = [&] { return mesh.rank() == 1 && evaluated > 100 ? "SIGTERM" : ""; };
      Context context(options, mesh, *stream, log, {}, reason);
      Trainer trainer(context, Model(two_blocks));
      trainer.fit(OnesUntilStop());
      Counted validation(evaluated);
      if (saves) {
        EXPECT_THROW(trainer.evaluate(validation, 1000000), Stopped);
      } else {
        EXPECT_GT(trainer.evaluate(validation, 50), 0);
      }
    });
    EXPECT_GT(evaluated, 100);
  }
}

TEST(StoppingFit, NoRankIsAskedToStop) {
  StopOutcome outcome;
  fit(-1, 0, "", outcome);
  EXPECT_EQ(outcome.finished, 8);
  EXPECT_EQ(outcome.steps, 8 * 5);
}

TEST(StoppingFit, AllRanksHearThatMetricsCannotBeWritten) {
  std::atomic<int> failures = 0;
  Options options;
  options.learning_rate.decay_iters = options.train_iters;
  const ScratchDirectory folder;
  options.metrics = folder / "missing/metrics.jsonl";
  run_on_threads(MeshShape(2, 1, 1), [&](Mesh& mesh) {
    const std::unique_ptr<Device> device = open_cpu();
    const std::unique_ptr<Stream> stream = device->make_stream();
    const Log log(mesh.rank(), LogLevel::quiet);
    Context context(options, mesh, *stream, log);
    Trainer trainer(context, Model(two_blocks));
    try {
      trainer.fit(OnesUntilStop());
    } catch (const ConfigurationError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("rank 0: --metrics " + options.metrics));
      ++failures;
    }
  });
  EXPECT_EQ(failures, 2);
}

/// Takes the directory of checkpoints away once training has begun.
class Vandal : public OnesUntilStop {
 public:
  explicit Vandal(std::string directory) : directory_(std::move(directory)) {}
  Index fill(Index sample, std::span<const Tensor> out) override {
    std::error_code taken_already;
    if (sample >= 16) std::filesystem::rename(directory_, directory_ + ".away", taken_already);
    return OnesUntilStop::fill(sample, out);
  }

 private:
  std::string directory_;
};

/// The error of every rank of 2 in a fit() of 5 steps whose saves fail after step 2.
std::string told_when_saves_fail(std::string_view reason_to_stop) {
  const ScratchDirectory folder;
  const std::string directory = folder / "saves";
  Options options;
  options.train_iters = options.learning_rate.decay_iters = 5;
  options.checkpoint.save = directory;
  options.checkpoint.save_interval = 2;
  options.checkpoint.async_save = false;
  std::string messages[2];
  run_on_threads(MeshShape(2, 1, 1), [&](Mesh& mesh) {
    const std::unique_ptr<Device> device = open_cpu();
    const std::unique_ptr<Stream> stream = device->make_stream();
    const Log log(mesh.rank(), LogLevel::quiet);
    const Trainer* trained = nullptr;
    const auto reason = [&] { return trained->steps_done() >= 4 ? reason_to_stop : ""; };
    Context context(options, mesh, *stream, log, {}, reason);
    Trainer trainer(context, Model(two_blocks));
    trained = &trainer;
    try {
      trainer.fit(Vandal(directory));
    } catch (const JobError& error) {
      messages[mesh.rank()] = error.what();
      EXPECT_EQ(trainer.steps_done(), 5);
    }
  });
  EXPECT_NE(messages[1], "");
  return messages[0];
}

TEST(StoppingFit, TheEndSaysThatTheLastSavesFailed) {
  EXPECT_THAT(
      told_when_saves_fail(""),
      testing::AllOf(testing::StartsWith("training is finished, but the last 2 saves failed: "),
                     testing::HasSubstr("/saves"),
                     testing::EndsWith("; the newest checkpoint is that of step 2")));
}

TEST(StoppingFit, AJobThatCannotSaveIsNotStoppedInGoodOrder) {
  EXPECT_THAT(told_when_saves_fail("SIGUSR1"),
              testing::StartsWith("SIGUSR1: stopped after step 5, but the last 2 saves failed: "));
}

}  // namespace
}  // namespace trireme
