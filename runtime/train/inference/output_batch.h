// OutputBatch: the memory of PlannedOutputs: the results of a global batch of this data rank, on
// the host.
#pragma once

#include <memory>
#include <vector>

#include "trireme/job/run.h"

#include "runtime/plan/planned_outputs.h"
#include "runtime/train/input_batch.h"

namespace trireme::train {

class OutputBatch final : public MicroBatchSource {
 public:
  /// `plan` is borrowed.
  OutputBatch(const PlannedOutputs& plan, const Context& context);

  InputBatch& inputs() { return inputs_; }
  MicroBatch micro_batch(int chunk, Index number) override {
    return inputs_.micro_batch(chunk, number);
  }
  void on_result(Index number, const Tensor& result) override;
  /// Call when all work of this batch is queued.
  void queued();
  /// Collective over the world: brings the `samples` rows of data rank `data` to rank 0, in f32.
  /// Returns them there; unspecified on other ranks.
  const float* collect(int data, Index samples, const Context& context);

 private:
  void convert_results();

  const PlannedOutputs& plan_;
  InputBatch inputs_;
  Stream& stream_;
  Buffer results_;  // as computed, on a rank that makes them
  Buffer rows_;     // f32
  std::unique_ptr<Event> computed_;
};

}  // namespace trireme::train
