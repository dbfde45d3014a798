// BoundTraining: a PlannedTraining bound to memory and to the ranks of a job, ready to run steps.
// Complete when constructed.
#pragma once

#include <functional>
#include <optional>

#include "runtime/optim/optimizer.h"
#include "runtime/optim/replica_hashes.h"
#include "runtime/plan/planned_training.h"
#include "runtime/train/inference/output_batch.h"
#include "runtime/train/input_batch.h"
#include "runtime/train/pass.h"

namespace trireme::train {

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
