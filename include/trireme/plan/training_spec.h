// TrainingSpec: how a model is trained, in numbers: all that planning needs besides the model and
// the device. No flags, no files.
#pragma once

#include "trireme/core/mesh_shape.h"
#include "trireme/optim/optimizer_options.h"
#include "trireme/pipeline/schedule.h"

namespace trireme {

struct TrainingSpec {
  MeshShape mesh{1, 1, 1};
  int chunks = 1;  // virtual stages per pipeline rank
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  ScheduleFunction own_schedule;  // where set, it replaces `schedule`

  Index micro_batch_size = 1;   // samples
  Index global_batch_size = 1;  // samples; divides by micro_batch_size and the data axis

  DType compute = DType::f32;  // or bf16
  OptimizerOptions optimizer;
  Update update = Update::replicated;  // sharded: the distributed optimizer
  Index bucket_size = Index{1} << 20;  // parameters per gradient bucket
  bool check_replicas = false;         // memory for hashes, where there are data replicas
  bool verify_steps = false;           // memory to compute steps twice
  /// Leaves guard bytes after every activation, to detect overruns (Options::check_finite).
  bool guard = false;

  /// Micro-batches that a data rank runs per step.
  Index micro_batches() const {
    return global_batch_size / (mesh.size(Axis::data) * micro_batch_size);
  }
  PipelineShape pipeline() const { return {mesh.size(Axis::pipeline), chunks, micro_batches()}; }
};

}  // namespace trireme
