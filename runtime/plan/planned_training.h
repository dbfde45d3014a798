// PlannedTraining: everything that one rank of a layout will do and need, derived only from the
// model, the TrainingSpec and the traits of the rank's device: no communication, no memory, no
// device. Any process can plan any rank. Complete when constructed, and never changed.
//
// Not installed; modules above may include it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runtime/plan/memory_need.h"
#include "runtime/plan/planned_inputs.h"
#include "runtime/plan/planned_outputs.h"
#include "runtime/plan/planned_pass.h"

namespace trireme {

struct PlannedTraining {
  /// all; or training alone, where evaluation runs the same graph, which needs no more memory: the
  /// pass of `evaluate` then has no chunks.
  enum class Passes { all, train };
  /// `device`: that the rank will have; any GPU, but a CPU only where this machine runs the same
  /// vector code. `cache`: of this model and device, so that other ranks take less time; null:
  /// none. Throws: Error when the model cannot be traced or cut, a data input's dim 0 is not the
  /// micro-batch, or no op takes it.
  PlannedTraining(const Model& model, const TrainingSpec& spec, int rank,
                  const DeviceTraits& device, PlanCache* cache = nullptr,
                  Passes planned = Passes::all);

  TrainingSpec spec;
  int rank;
  DeviceTraits device;
  PlannedPass train, evaluate;            // `train` without TrainingSpec::trains: for its cut alone
  std::optional<PlannedPass> generate;    // where there is Model::logits
  std::optional<PlannedOutputs> outputs;  // where there is Model::result
  FlatLayout flat;
  PlannedInputs train_inputs, evaluate_inputs;
  Index product_bytes;  // of the device's stream that computes

  int coordinate(Axis axis) const { return spec.mesh.coordinate(rank, axis); }
  /// All that run: the first is training where there is any (TrainingSpec::trains), otherwise
  /// evaluation.
  std::vector<const PlannedPass*> passes() const;
  /// Without what checkpoints need.
  MemoryNeed memory_need() const;
  /// The tables of --dump-plan.
  std::string describe() const;
};

}  // namespace trireme
