// Optimizer: one update of the parameters from the reduced gradients: AdamW or SGD with momentum,
// with clipping, with skipped steps, replicated or sharded over the data axis. The caller provides
// all memory; a step allocates nothing, and the host waits only for its decision.
//
// Not installed; modules above may include it.
#pragma once

#include <string>
#include <vector>

#include "trireme/comm/communicator.h"
#include "trireme/comm/mesh.h"
#include "trireme/core/function_ref.h"
#include "trireme/kernels/range_list.h"
#include "trireme/optim/optimizer_options.h"

#include "runtime/optim/flat_parameters.h"
#include "runtime/optim/step_hashes.h"

namespace trireme {
struct StepDecision;  // in kernels/optimizer.h
struct StepScalars;   // in core/step_scalars.h
}  // namespace trireme

namespace trireme::optim {

/// The norm of all gradients, and the decisions based on it: clipping, and skipping a step that is
/// not finite. Every logical element counts once, whatever is replicated, tied or sharded. The
/// decision is made on the device, for the update that is queued behind it.
class GradientNorm {
 public:
  /// Bytes of device memory that it needs.
  static Index bytes(const FlatLayout& flat);
  /// `memory`: bytes() of device memory, aligned to 64; borrowed. Waits for the stream.
  GradientNorm(const FlatParameters& flat, Communicator& world, Stream& stream, std::byte* memory);

  /// Collective over the world, after GradientReducer::finish(). Queues the 2-norm of the reduced
  /// gradients, in fp64 and with the same bits on every rank, and the decision.
  void start(double max_norm);
  /// The decision of start(), on the device.
  const StepDecision* decision() const { return decision_; }
  /// Returns the decision on the host; waits for it, not for the work queued after it.
  StepDecision wait();

 private:
  const FlatParameters& flat_;
  Communicator& world_;
  Stream& stream_;
  double* sum_;
  StepDecision* decision_;
  Buffer on_host_;  // the decision, in memory of the host
  std::unique_ptr<Event> decided_;
  DeviceList<ListedRange> list_;
};

}  // namespace trireme::optim

namespace trireme {

/// What a step did; the same on every rank.
struct StepReport {
  double grad_norm = 0;         // before clipping
  double clip_coefficient = 1;  // factor applied to gradients
  bool skipped = false;         // the norm was not finite: nothing was changed
};

/// What the update of one parameter reads and writes, and computes (kernels/optimizer.h).
struct UpdateCost {
  double bytes, flops;
};
/// `compute`: the type of the copy that ops read.
UpdateCost update_cost(const OptimizerOptions& options, DType compute);

class Optimizer {
 public:
  /// Bytes of `state`: moments, and a few for scalars and lists of ranges.
  static Index state_bytes(const FlatLayout& flat, const OptimizerOptions& options);
  /// Names of the tensors of state_tensors(), in their order.
  static std::vector<std::string> state_names(const OptimizerOptions& options);
  /// `scalars`: those of each step, on the device. `state`: zeroed device memory of state_bytes(),
  /// aligned to 64; borrowed. Waits for the stream. Throws: Error that names the option out of
  /// range.
  Optimizer(const FlatParameters& flat, Mesh& mesh, Stream& stream, const OptimizerOptions& options,
            const StepScalars* scalars, std::byte* state);

  /// Sets the rates that the next step reads.
  void set_rates(StepScalars& scalars, double learning_rate) const;

  enum class Part { norm, update, gather };
  using PartQueued = FunctionRef<void(Part)>;
  /// Collective over the world, after GradientReducer::finish(). Queues the whole step: the update
  /// reads the decision on the device. Call finish_step() before the next one. `queued` is called
  /// after each part is queued. A sharded update gathers buckets while it updates others, and
  /// `gather` is the wait for the rest. With `twice` each bucket is updated a second time, on
  /// copies of what it was, and both results are hashed.
  void start_step(
      PartQueued queued = [](Part) {}, StepHashes* twice = nullptr);
  /// Waits for the decision; the update itself may still be running.
  StepReport finish_step();
  /// start_step(), then finish_step().
  StepReport step() {
    start_step();
    return finish_step();
  }

  /// Updates made (steps without the skipped ones): the exponent of AdamW's bias correction, part
  /// of a checkpoint.
  Index updates() const { return updates_; }
  void set_updates(Index updates);
  /// Steps skipped since this object was made.
  Index skipped() const { return skipped_; }

  /// The state as tensors, laid out as FlatLayout::state_extents() describes.
  struct StateTensor {
    std::string name;  // "first_moment", "second_moment", "momentum"
    float* data;
  };
  std::vector<StateTensor> state_tensors() const;

 private:
  void update(const DeviceList<UpdateRange>& list, const UpdatedBuffers& buffers);
  void update_twice(int bucket, const UpdatedBuffers& buffers, StepHashes& hashes);
  void start_gather(std::size_t bucket);

  const FlatParameters& flat_;
  Communicator& data_;
  Stream& stream_;
  OptimizerOptions options_;
  const StepScalars* scalars_;
  optim::GradientNorm norm_;
  DeviceList<UpdateRange> all_;                   // what is updated
  std::vector<DeviceList<UpdateRange>> buckets_;  // the same, bucket by bucket
  std::vector<Ticket> gathers_;                   // one a bucket, or none
  float* first_ = nullptr;                        // first moment, or momentum; null: none
  float* second_ = nullptr;                       // second moment; null: none
  Index updates_ = 0, skipped_ = 0;
  bool started_ = false;
};

}  // namespace trireme
