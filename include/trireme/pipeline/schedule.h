// Schedules are data: which work a stage does, in which order. Pure functions of (stage, stages,
// chunks, micro-batches); nothing here depends on a network. program.h adds the communication,
// simulate.h runs and draws it.
//
// A model is cut into stages * chunks virtual stages; virtual stage v is chunk v / stages of stage
// v % stages, so the next virtual stage is always on the next stage (around the ring). Every
// schedule runs forward and backward of one chunk in increasing order of micro-batches: gradients
// are summed in one order, whatever the schedule.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "trireme/core/dtype.h"
#include "trireme/pipeline/schedule_kind.h"

namespace trireme {

struct PipelineShape {
  int stages = 1;
  int chunks = 1;  // virtual stages per stage
  Index micro_batches = 1;

  int virtual_stages() const { return stages * chunks; }
  int virtual_stage(int stage, int chunk) const { return chunk * stages + stage; }
};
std::ostream& operator<<(std::ostream& out, const PipelineShape& shape);

enum class WorkKind {
  forward,
  backward,            // gradients of inputs and parameters
  backward_input,      // the two halves of a backward, as zero-bubble schedules run them
  backward_parameter,  // (Qi et al. 2023, arXiv:2401.10241)
};

struct Work {
  WorkKind kind = WorkKind::forward;
  int chunk = 0;
  Index micro_batch = 0;
  friend bool operator==(const Work&, const Work&) = default;
};
/// "F3", "B3", with more than one chunk "F3b" (chunks are lettered).
std::string describe(const Work& work, int chunks);

/// The work of one stage, in order.
using WorkOrder = std::vector<Work>;

/// Empty when `kind` can run this shape; otherwise one sentence with the nearest legal values.
std::string schedule_problem(ScheduleKind kind, const PipelineShape& shape);

/// Throws: Error with schedule_problem().
WorkOrder work_order(ScheduleKind kind, const PipelineShape& shape, int stage);
std::vector<WorkOrder> work_orders(ScheduleKind kind, const PipelineShape& shape);

/// Evaluation and generation: every forward, no backward. Any shape.
WorkOrder forward_order(const PipelineShape& shape, int stage);
std::vector<WorkOrder> forward_orders(const PipelineShape& shape);

/// Share of time that stages idle when all micro-batches cost the same and communication nothing:
/// (p - 1) / (v m + p - 1) for p stages, v chunks, m micro-batches. Exact for m >= p (interleaved:
/// m a multiple of p), else a lower bound.
double ideal_bubble(const PipelineShape& shape);

}  // namespace trireme
