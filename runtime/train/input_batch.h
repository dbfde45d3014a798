// InputBatch: the data of one global batch that this data rank works on, on the host. Sample i of a step is row i of the
// global batch; data rank d of n takes rows [d, d + 1) * rows / n, micro-batch after micro-batch, whatever the layout.
#pragma once

#include <memory>
#include <vector>

#include "trireme/data/source.h"
#include "trireme/job/run.h"

#include "runtime/pipeline/executor.h"

namespace trireme {

class InputBatch final : public MicroBatchSource {
 public:
  /// For the inputs that any of `plans` loads.
  InputBatch(const Graph& graph, const std::vector<const Plan*>& plans, const Context& context);

  Index bytes() const { return bytes_; }
  /// Before the first load().
  void allocate(Device& device);
  /// Before load(): until the device has read what was loaded before.
  void wait() { read_->synchronize(); }
  /// The global batch that begins at sample `first` of the stream. Returns the targets of this data
  /// rank. Throws: Error when the source says nonsense, or, under --check-finite, gives numbers
  /// that are not finite.
  Index load(DataSource& source, Index first);
  /// All that reads this batch is queued on `stream`.
  void queued(Stream& stream) { read_->record(stream); }
  /// What the micro-batches handed out from now on carry.
  void begin(Index step, double loss_scale);
  MicroBatch micro_batch(int chunk, Index number) override;

 private:
  Index first_sample(Index micro_batch) const;
  void check_finite(Index sample) const;

  bool check_finite_;
  Index micro_batch_size_, micro_batches_, first_row_;
  Index bytes_ = 0;
  Buffer memory_;
  std::unique_ptr<Event> read_;
  std::vector<std::vector<Tensor>>
      inputs_;  // per micro-batch, by position in Graph::inputs(); unused ones are empty
  std::vector<std::string> names_;
  std::vector<bool> used_;     // by position, as input_ and row_
  std::vector<Tensor> input_;  // one micro-batch of each, without memory
  std::vector<Tensor> row_;    // one sample of each, as a source sees it
  std::vector<std::vector<float>>
      unrounded_;  // one sample of each input that the model takes in bf16
  Index step_ = 0;
  double loss_scale_ = 1;
};

/// What is wrong with the inputs: dim 0 is the sample, so it is the micro-batch.
void check_inputs(const Graph& graph, Index micro_batch_size, Problems& problems);
/// Of the graph that is trained on: others may declare an input only to keep the order of those
/// behind it.
void check_inputs_are_used(const Graph& graph, Problems& problems);

}  // namespace trireme
