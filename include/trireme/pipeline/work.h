// The work of a pipeline stage, as data: what a schedule orders (pipeline/schedule.h).
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "trireme/core/dtype.h"

namespace trireme {

/// How a micro-batch passes through the stages in each chunk. ring: from the first stage to the
/// last. v: up and down in turn, so that the stage where it turns keeps it.
enum class Route { ring, v };

/// Virtual stage v is chunk v / stages of stage_of(v).
struct PipelineShape {
  int stages = 1;
  int chunks = 1;  // virtual stages per stage
  Index micro_batches = 1;
  Route route = Route::ring;

  int virtual_stages() const { return stages * chunks; }
  int virtual_stage(int stage, int chunk) const {
    return chunk * stages + (goes_down(chunk) ? stages - 1 - stage : stage);
  }
  int stage_of(int virtual_stage) const {
    const int place = virtual_stage % stages;
    return goes_down(chunk_of(virtual_stage)) ? stages - 1 - place : place;
  }
  int chunk_of(int virtual_stage) const { return virtual_stage / stages; }
  /// Where the results are.
  int last_stage() const { return stage_of(virtual_stages() - 1); }

 private:
  bool goes_down(int chunk) const { return route == Route::v && chunk % 2 == 1; }
};
std::ostream& operator<<(std::ostream& out, const PipelineShape& shape);

enum class WorkKind {
  forward,
  backward,         // gradients of inputs and weights
  backward_input,   // the two halves of a backward, as zero-bubble schedules run them
  backward_weight,  // (Qi et al. 2023, arXiv:2401.10241)
};

struct Work {
  WorkKind kind = WorkKind::forward;
  int chunk = 0;
  Index micro_batch = 0;
  friend bool operator==(const Work&, const Work&) = default;
};
/// "F3", "B3", "I3", "W3", with more than one chunk "F3b" (chunks are lettered).
std::string describe(const Work& work, int chunks);

/// The work of one stage, in order.
using WorkOrder = std::vector<Work>;

/// A schedule of a program's own (Options::own_schedule): the work of `stage`. A pure function, the
/// same on every rank. Each chunk runs forward and backward of every micro-batch once, in
/// increasing order; a backward is one `backward`, or a `backward_input` and later a
/// `backward_weight`. What an order may not do is refused before anything is allocated.
using ScheduleFunction = std::function<WorkOrder(const PipelineShape& shape, int stage)>;

}  // namespace trireme
