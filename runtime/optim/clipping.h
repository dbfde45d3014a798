// The norm of all gradients, and the decisions based on it: clipping, and skipping a step that is
// not finite. Every logical element counts once, whatever is replicated, tied or sharded. The
// decision is made on the device, for the update that is queued behind it.
#pragma once

#include <memory>

#include "trireme/comm/communicator.h"
#include "trireme/kernels/range_list.h"

#include "runtime/optim/flat_parameters.h"

namespace trireme {
struct StepDecision;  // in kernels/optimizer.h
}

namespace trireme::optim {

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
  /// The same on the host: waits for the decision, not for the work queued after it.
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
