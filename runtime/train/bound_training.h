// BoundTraining: a PlannedTraining bound to memory and to the ranks of a job, ready to run steps.
// Complete when constructed.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "trireme/job/run.h"

#include "runtime/optim/optimizer.h"
#include "runtime/optim/replica_hashes.h"
#include "runtime/rank_plan/planned_training.h"
#include "runtime/train/input_batch.h"
#include "runtime/train/pass.h"

namespace trireme::train {

/// OutputBatch: the memory of PlannedOutputs: the results of a global batch of this data rank, on
/// the host.
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

/// One allocation and its parts.
struct Arena {
  /// Collective over the world.
  Arena(const MemoryNeed& need, Mesh& mesh);

  Buffer memory;
  std::byte *parameters, *gradients, *optimizer, *activations, *constants, *checks;
};

struct BoundTraining {
  /// Collective over the world. Allocates all memory and lets ops do their one-time work.
  /// Parameters are zero. `plan`, `ties` and `profile` (may be null) are borrowed. `between_ops` is
  /// called between any two ops, and must not wait.
  BoundTraining(const Context& context, const PlannedTraining& plan, const TieGroups& ties,
                StepProfile* profile, std::function<void()> between_ops, observe::StatusPage& page);
  BoundTraining(const BoundTraining&) = delete;
  BoundTraining& operator=(const BoundTraining&) = delete;
  /// Writes the initial values of all parameters. `from_row`: as in FlatParameters::initialise.
  void draw_initial_values(const Context& context,
                           const std::function<Index(const std::string&)>& from_row = {});

 private:
  std::function<void()> between_ops_;
  Arena arena_;
  DeviceScalars scalars_;

 public:
  FlatParameters flat;
  // With TrainingSpec::trains.
  std::optional<GradientReducer> reducer;
  std::optional<Optimizer> optimizer;
  std::optional<InputBatch> train_inputs;
  std::optional<Pass> train;
  // With --check-replicas and replicas.
  std::optional<ReplicaHashes> replica_hashes;
  std::optional<StepHashes> step_hashes;  // with --verify-step
  InputBatch evaluate_inputs;
  Pass evaluate;
  std::optional<Pass> generate;  // where there is Model::logits
  // Where there is Model::result.
  std::optional<Pass> outputs;
  std::optional<OutputBatch> outputs_batch;
};

}  // namespace trireme::train
