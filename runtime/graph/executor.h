// Executor: runs one stage's plan, micro-batch by micro-batch. It allocates only on construction.
// The pipeline decides when it runs; gradients leave through hooks; the caller does transfers
// between calls.
//
// Not installed; modules above may include it.
#pragma once

#include <functional>
#include <memory>
#include <span>

#include "trireme/comm/mesh.h"
#include "trireme/core/step_scalars.h"

#include "runtime/graph/compile/plan.h"

namespace trireme {

struct MicroBatch;

/// Calls of the executor to its owner while it runs.
class ExecutorHooks {
 public:
  virtual ~ExecutorHooks() = default;
  /// The gradient of parameter `position` (in Plan::parameters()) is complete; called in the last
  /// micro-batch only.
  virtual void gradient_ready(int /*position*/) {}
  /// A forward of `batch` begins, or a backward, of which a split one has two.
  enum class Pass { forward, backward, parameter_backward };
  virtual void pass_begins(Pass /*pass*/, const MicroBatch& /*batch*/) {}
  /// Step `step` of the plan (Plan::work) begins.
  virtual void step_begins(int /*step*/) {}
  /// Step `step` of the plan (Plan::work) is on the stream, and nothing behind it yet.
  virtual void step_queued(int /*step*/) {}
  /// Is called between two ops: a place to advance communication.
  virtual void op_boundary() {}
};

struct ExecutorMemory {
  std::byte* slots = nullptr;  // slot i at slots + i * slot_stride
  Index slot_stride = 0;
  std::byte* scratch = nullptr;
  std::vector<Tensor> parameters;  // in the order of Plan::parameters(), of type Plan::compute()
  /// f32, without memory for frozen ones; empty in forward-only mode. The executor always adds to
  /// them.
  std::vector<Tensor> gradients;
  /// What write_constants (runtime/graph/constants.h) wrote; null for a graph without any.
  const std::byte* constants = nullptr;
  const StepScalars* scalars = nullptr;  // DeviceScalars, of the step that runs
};

struct ExecutorOptions {
  std::uint64_t seed = 0;
  /// Reports the first op whose output is not finite, not written, or written beyond its end.
  bool check_finite = false;
};

/// One micro-batch of one step.
struct MicroBatch {
  Index step = 0;          // for messages, as number
  Index number = 0;        // within the step
  Index first_sample = 0;  // in the global batch
  bool last = false;       // the last of this step on this rank: gradients become final
  std::span<const Tensor>
      inputs;  // host memory, by position in Graph::inputs(); unused ones may be empty
};

/// Which gradients a backward call computes. `input` then `parameter` equals `both`, bit for bit;
/// asking for them apart needs a plan with PlanOptions::Backward::split. Other slots may run in
/// between.
enum class BackwardPart { both, input, parameter };

class Executor {
 public:
  /// Throws: Error when the graph was planned for other devices than that of `stream`, or memory is
  /// missing.
  Executor(const Plan& plan, ExecutorMemory memory, Stream& stream, Mesh& mesh,
           ExecutorHooks& hooks, ExecutorOptions options = {});
  ~Executor();
  Executor(Executor&&) noexcept;

  /// Lets every op do its one-time work (Op::prepare_forward, prepare_backward), in the order of
  /// the plan. Calls `after_each` after every op. Writes to no memory of the plan.
  void prepare(Preparation& preparation, const std::function<void()>& after_each);
  /// Calls of prepare() to come.
  Index preparations() const;

  /// Loads inputs and runs forward in `slot`; received values must be in place. Throws: Error
  /// (check_finite).
  void forward(int slot, const MicroBatch& batch);
  /// Received gradients must be in place. The slot keeps its values until the last part ran.
  void backward(int slot, const MicroBatch& batch, BackwardPart part = BackwardPart::both);

  /// Result i (only on stages that compute it) of the last forward in `slot`: the loss, or what was
  /// asked for. It is there after forward, or after (the first part of) backward where
  /// Plan::result_in_backward.
  Tensor result(int slot, int i = 0) const;
  /// Memory of a Transfer of the plan in `slot`.
  std::byte* transfer(int slot, const Transfer& transfer) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace trireme
