// PipelineExecutor: runs the program of one stage: forwards and backwards of all micro-batches of a
// step, and the transfers between stages. Everything is prepared on construction; a step allocates
// nothing.
//
// Transfers overlap with the work if the transport is polled: call progress() of the pipeline
// communicator in ExecutorHooks::op_boundary.
//
// Not installed; modules above may include it.
#pragma once

#include <memory>
#include <vector>

#include "trireme/comm/communicator.h"

#include "runtime/graph/executor.h"
#include "runtime/pipeline/program.h"

namespace trireme {

/// Provides the micro-batches of a step, and receives reports about them.
class MicroBatchSource {
 public:
  virtual ~MicroBatchSource() = default;
  /// Called once for each chunk of this rank and each micro-batch, right before its forward: step,
  /// number, first sample, loss scale and inputs. The inputs stay as they are until the next call;
  /// `last` is set by the pipeline.
  virtual MicroBatch micro_batch(int chunk, Index number) = 0;
  /// Called on the virtual stage that computes result 0 of the plan, after each forward, or after
  /// each backward where backward computes it. `result` is device memory in the slot, ready in
  /// stream order, and valid until the slot is used again.
  virtual void on_result(Index /*number*/, const Tensor& /*result*/) {}
  /// Called after the pipeline itself has queued work: the start of an exchange between stages and
  /// the wait for it, and a copy of a result.
  enum class Queued { exchange, result };
  virtual void on_queued(Queued /*what*/) {}
};

/// A chunk of this rank. Borrowed: both must outlive the pipeline.
struct PipelineChunk {
  const Plan* plan = nullptr;
  Executor* executor = nullptr;
};

class PipelineExecutor {
 public:
  /// `chunks`: plans of PipelineShape::virtual_stage(stage, c), with executors that have at least
  /// program.slots[c] slots. `pipeline_axis`: rank = stage. Throws: Error when these do not fit
  /// together.
  PipelineExecutor(StageProgram program, std::vector<PipelineChunk> chunks,
                   Communicator& pipeline_axis, Stream& stream);
  ~PipelineExecutor();
  PipelineExecutor(PipelineExecutor&&) noexcept;

  /// Collective over the pipeline axis: queues all micro-batches of a step; forwards only, if that
  /// is the program.
  void start(MicroBatchSource& source);
  /// The sum of result `result` over the micro-batches of the last start(), in f64 and in their
  /// order. 0 on stages that do not compute it, and where it is no floating-point scalar (the loss,
  /// a metric). Waits for the last of them, not for work queued after it.
  double sum(int result);
  double loss() { return sum(0); }
  /// start(), then loss().
  double run(MicroBatchSource& source) {
    start(source);
    return loss();
  }
  const StageProgram& program() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme
