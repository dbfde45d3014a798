// Schedules are data: which work a stage does, in which order. Pure functions of (stage, stages,
// chunks, micro-batches); nothing here depends on a network. program.h adds the communication,
// simulate.h runs and draws it.
//
// A model is cut into stages * chunks virtual stages. PipelineShape::route says which stage has
// which: the next virtual stage is on the next stage, around the ring or up and down. Every
// schedule runs forward and backward of one chunk in increasing order of micro-batches: gradients
// are summed in one order, whatever the schedule.
#pragma once

#include <string>
#include <vector>

#include "trireme/pipeline/schedule_kind.h"
#include "trireme/pipeline/work.h"

namespace trireme {

/// How a micro-batch passes through the stages under `kind`: its shapes have this route.
Route route_of(ScheduleKind kind);

/// Empty when `kind` can run this shape; otherwise one sentence with the nearest legal values.
std::string schedule_problem(ScheduleKind kind, const PipelineShape& shape);

/// Throws: Error with schedule_problem().
WorkOrder work_order(ScheduleKind kind, const PipelineShape& shape, int stage);
std::vector<WorkOrder> work_orders(ScheduleKind kind, const PipelineShape& shape);

/// Evaluation and generation: every forward, no backward. Any shape.
WorkOrder forward_order(const PipelineShape& shape, int stage);
std::vector<WorkOrder> forward_orders(const PipelineShape& shape);

/// Share of time that stages idle when all micro-batches cost the same, communication nothing, and
/// a forward and each half of a backward the same: (p - 1) / (v m + p - 1) for p stages, v chunks,
/// m micro-batches. zero_bubble: (p - 1) / (3 m + p - 1), for m < p (2 p - m - 1) / (2 p + 2 m -
/// 1). zero_bubble_v: (p - 1) / (6 m + p - 1), or (2 p - m - 1) / (2 p + 2 m - 1) if that is more.
/// Exact for m >= p (interleaved: m a multiple of p) and for both zero bubbles, else a lower bound.
double ideal_bubble(ScheduleKind kind, const PipelineShape& shape);

}  // namespace trireme
