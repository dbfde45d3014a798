// Pass: a planned model with its memory and its pipeline program, ready to run micro-batches: the training step, an
// evaluation, or one token of generation. Passes never run at the same time, so they share memory.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "trireme/job/run.h"

#include "runtime/optim/gradient_reducer.h"
#include "runtime/pipeline/executor.h"
#include "runtime/train/profile/step_profile.h"

namespace trireme {

class Pass {
 public:
  Pass(PlannedModel model, StageProgram program);

  const PlannedModel& model() const { return model_; }
  const StageProgram& program() const { return program_; }
  /// All slots of all chunks, and the scratch that they share.
  Index slot_bytes() const;
  Index scratch_bytes() const { return model_.scratch_bytes(); }
  Index bytes() const { return slot_bytes() + scratch_bytes(); }

  /// `memory`: bytes(), aligned to 4096, borrowed. `flat` is bound. `reducer`: null for forward only. `between_ops` is
  /// called between any two ops, and must not wait. `profile`: marks every op; null: none.
  void bind(std::byte* memory, const FlatParameters& flat, GradientReducer* reducer,
            const Context& context, const std::function<void()>& between_ops,
            StepProfile* profile = nullptr);
  /// As Executor::prepare, for all chunks.
  void prepare(Preparation& preparation, const std::function<void()>& after_each);
  Index preparations() const;
  /// Collective over pipeline and tensor axis; see PipelineExecutor.
  void start(MicroBatchSource& source) { pipeline_->start(source); }
  double loss() { return pipeline_->loss(); }

 private:
  Index slot_stride(std::size_t chunk) const;

  PlannedModel model_;
  StageProgram program_;
  std::vector<std::unique_ptr<ExecutorHooks>> hooks_;
  std::vector<std::unique_ptr<Executor>> executors_;
  std::unique_ptr<PipelineExecutor> pipeline_;
};

}  // namespace trireme
