// Every shape that a schedule must be proved for: 1-8 stages, 1-4 chunks, 1-32 micro-batches.
#pragma once

#include <functional>

#include "trireme/pipeline/schedule.h"

namespace trireme {

inline void for_every_shape(const std::function<void(ScheduleKind, const PipelineShape&)>& f) {
  for (const ScheduleKind kind : all_schedules())
    for (int stages = 1; stages <= 8; ++stages)
      for (int chunks = 1; chunks <= 4; ++chunks)
        for (Index micro_batches = 1; micro_batches <= 32; ++micro_batches) {
          const PipelineShape shape{stages, chunks, micro_batches, route_of(kind)};
          if (schedule_problem(kind, shape).empty()) f(kind, shape);
        }
}

}  // namespace trireme
