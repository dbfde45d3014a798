// A lower bound of the time of a step from what its stages cost, without plans of them.
//
// Not installed; modules above may include it.
#pragma once

#include <vector>

#include "runtime/pipeline/program.h"
#include "runtime/planner/search/pieces.h"

namespace trireme::planner {

/// A pipeline rank: seconds of the calls of a micro-batch, bytes, and parameters of its buckets.
struct LeastStage {
  struct Chunk {
    double forward = 0, backward = 0, parameter_backward = 0;

    double seconds() const { return forward + backward + parameter_backward; }
  };
  std::vector<Chunk> chunks;
  std::vector<double> slots;  // of one micro-batch, for each chunk
  double scratch = 0;
  PieceParameters parameters;

  /// So many pieces more have these parameters.
  void add(const PieceParameters& more, double times);
};

/// Never more than step_time(), but for rounding. `message`: bytes from each stage to the next one.
/// The spec has one of the runtime's schedules, and equal data ranks and stages.
/// `programs`: of all stages, to simulate, which is tighter; null: only what is known without.
double least_step(const std::vector<LeastStage>& stages, double message, const TrainingSpec& spec,
                  const Profile& profile, const Network& network,
                  const std::vector<StageProgram>* programs = nullptr);

}  // namespace trireme::planner
