// TrainingSpec: how a model is trained, in numbers: all that planning needs besides the model and
// the device. No flags, no files.
#pragma once

#include <string>
#include <vector>

#include "trireme/core/mesh_shape.h"
#include "trireme/graph/parameter.h"
#include "trireme/optim/optimizer_options.h"
#include "trireme/pipeline/schedule.h"
#include "trireme/rank_plan/micro_batches.h"

namespace trireme {

struct TrainingSpec {
  MeshShape mesh{1, 1, 1};
  int chunks = 1;  // virtual stages per pipeline rank
  ScheduleKind schedule = ScheduleKind::one_f_one_b;
  ScheduleFunction own_schedule;  // where set, it replaces `schedule`

  Index micro_batch_size = 1;   // samples
  Index global_batch_size = 1;  // samples; a multiple of micro_batch_size x the sum of shares

  /// False: only forward passes run. There are then no gradients, no optimizer state, and no
  /// parameters but those that ops read.
  bool trains = true;
  /// A parameter belongs to the first group whose pattern its name begins with, or to the default.
  /// A weight that several layers share has one group. Parameters that are not trained have no
  /// masters, gradients or optimizer state.
  std::vector<ParameterGroup> groups;
  DType compute = DType::f32;  // or bf16
  OptimizerOptions optimizer;
  Update update = Update::replicated;  // sharded: the distributed optimizer
  Index bucket_size = Index{1} << 20;  // parameters per gradient bucket
  bool check_replicas = false;         // memory for hashes, where there are data replicas
  bool verify_steps = false;           // memory to compute steps twice
  /// Leaves guard bytes after every activation, to detect overruns (Options::check_finite).
  bool guard = false;
  /// For data ranks of unequal speed: how many micro-batches each runs, relative to the others.
  DataShares data_parallel_shares;
  /// For data ranks of unequal memory or speed: what each keeps and updates of a sharded update,
  /// relative to the others; some may be 0. Empty: equal.
  DataShares optimizer_shares;
  /// For pipeline ranks of unequal speed: how fast each is, relative to the others; empty: equally.
  std::vector<double> stage_speeds;

  /// Returns the micro-batches that a data rank runs per step.
  MicroBatchRange micro_batches(int data_rank) const {
    return micro_batches_of(global_batch_size / micro_batch_size, data_parallel_shares,
                            mesh.size(Role::batch), data_rank);
  }
  /// Returns the shape of the pipeline that a data rank belongs to.
  PipelineShape pipeline(int data_rank) const {
    return {mesh.size(Role::stage), chunks, micro_batches(data_rank).count,
            own_schedule ? Route::ring : route_of(schedule)};
  }
};

}  // namespace trireme
