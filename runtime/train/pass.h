// Pass: a planned pass with its memory, ready to run micro-batches: the training step, an
// evaluation, or one token of generation.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "trireme/job/run.h"

#include "runtime/graph/device_scalars.h"
#include "runtime/graph/executor.h"
#include "runtime/observe/status_page.h"
#include "runtime/optim/gradient_reducer.h"
#include "runtime/pipeline/executor.h"
#include "runtime/rank_plan/planned_training.h"
#include "runtime/train/profile/step_profile.h"

namespace trireme::train {

/// Borrowed; both aligned to 4096.
struct PassMemory {
  std::byte* activations;  // PlannedPass::bytes()
  std::byte* constants;    // PlannedPass::constant_bytes(), of this pass alone
};

class Pass {
 public:
  struct Settings {
    GradientReducer* reducer = nullptr;  // null: forward only
    /// Called between any two ops; must not wait.
    const std::function<void()>& between_ops;
    DeviceScalars& scalars;          // the numbers of the pass that runs
    observe::StatusPage& page;       // says which op runs
    StepProfile* profile = nullptr;  // marks every op; null: none
  };
  /// `plan` is borrowed. Writes the constants.
  Pass(const PlannedPass& plan, const PassMemory& memory, const FlatParameters& flat,
       const Context& context, const Settings& settings);

  const PlannedModel& model() const { return plan_.model(); }
  /// Calls Executor::prepare for all chunks.
  void prepare(Preparation& preparation, const std::function<void()>& after_each);
  Index preparations() const;
  /// Collective over pipeline and tensor axis; see PipelineExecutor.
  void start(MicroBatchSource& source, const StepScalars& scalars) {
    scalars_.write(scalars);
    pipeline_.start(source);
  }
  double loss() { return pipeline_.loss(); }
  /// The sum of metric i over the micro-batches, where this rank computes it; otherwise 0.
  double metric(std::size_t i) { return pipeline_.sum(static_cast<int>(i) + 1); }

 private:
  /// Makes hooks_ and executors_.
  std::vector<PipelineChunk> make_chunks(const PassMemory& memory, const FlatParameters& flat,
                                         const Context& context, const Settings& settings);

  const PlannedPass& plan_;
  DeviceScalars& scalars_;
  std::vector<std::unique_ptr<ExecutorHooks>> hooks_;
  std::vector<std::unique_ptr<Executor>> executors_;
  PipelineExecutor pipeline_;
};

}  // namespace trireme::train
