// InputBatch: the memory of PlannedInputs: a global batch of this data rank, on the host.
#pragma once

#include <limits>
#include <memory>
#include <vector>

#include "trireme/core/device.h"
#include "trireme/data/source.h"

#include "runtime/data/skipped_samples.h"
#include "runtime/pipeline/executor.h"
#include "runtime/rank_plan/planned_training.h"

namespace trireme::train {

class InputBatch final : public MicroBatchSource {
 public:
  /// `plan` is borrowed. `check_finite`: what a source writes has to be finite, and
  /// inside its rows.
  InputBatch(const PlannedInputs& plan, Device& device, bool check_finite);

  /// Call before load(): waits until the device has read the previous batch.
  void wait() { read_->synchronize(); }
  /// The global batch that begins at sample `first` of the stream. Returns the targets of this data
  /// rank. Throws: Error when the source returns an impossible count, or values that are not
  /// finite.
  Index load(DataSource& source, Index first) { return load(source, first, no_end); }
  /// Loads from a stream that ends before sample `end`: its last sample fills the rest.
  Index load(DataSource& source, Index first, Index end);
  /// What a stream leaves out: borrowed.
  void skip(const data::SkippedSamples& skipped) { skipped_ = &skipped; }
  /// Call when all work that reads this batch is queued on `stream`.
  void queued(Stream& stream) { read_->record(stream); }
  /// What the micro-batches handed out from now on carry.
  void begin(Index step);
  MicroBatch micro_batch(int chunk, Index number) override;

 private:
  static constexpr Index no_end = std::numeric_limits<Index>::max();
  Index first_sample(Index micro_batch) const {
    return plan_.first_row + micro_batch * plan_.micro_batch_size;
  }
  /// Checks that a source has written no more than the rows, and finite values.
  void check_rows(Index sample) const;
  /// The row of input `k` from where a source has written it.
  void take_row(std::size_t k, void* to) const;

  const PlannedInputs& plan_;
  const data::SkippedSamples* skipped_ = nullptr;
  bool check_finite_;
  Buffer memory_;
  std::unique_ptr<Event> read_;
  /// Per micro-batch, by position in Graph::inputs(); unused ones are empty.
  std::vector<std::vector<Tensor>> inputs_;
  std::vector<Tensor> row_;  // as a source fills it, by position in its graph's inputs
  /// By position in Graph::inputs(): where a source writes a sample that does not go to the batch
  /// as it is: one that the model takes in bf16, and with `check_finite` each, with a guard behind.
  std::vector<std::vector<std::byte>> staged_;
  Index step_ = 0;
};

}  // namespace trireme::train
