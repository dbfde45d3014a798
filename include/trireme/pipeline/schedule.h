// Schedules are data: which work a stage does, in which order. Pure functions of (stage, stages,
// chunks, micro-batches); nothing here depends on a network. program.h adds the communication,
// simulate.h runs and draws it.
//
// A model is cut into stages * chunks virtual stages; virtual stage v is chunk v / stages of stage
// v % stages, so the next virtual stage is always on the next stage (around the ring). Every
// schedule runs forward and backward of one chunk in increasing order of micro-batches: gradients
// are summed in one order, whatever the schedule.
#pragma once

#include <string>
#include <vector>

#include "trireme/pipeline/schedule_kind.h"
#include "trireme/pipeline/work.h"

namespace trireme {

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
