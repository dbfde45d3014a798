// A training run as a test reads it: the losses and norms of its metrics file, and the logical
// tensors that --dump-tensors wrote, in any layout. Also how two runs differ.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trireme/core/dtype.h"

namespace trireme::test {

struct StepLine {
  double loss, grad_norm;
};

struct LogicalTensors {
  std::map<std::string, std::vector<float>> tensors;
};

struct TrainingRun {
  std::vector<StepLine> steps;
  LogicalTensors gradients;   // of step 1
  LogicalTensors parameters;  // after the last step
};

/// Losses and norms of a metrics file. Throws: Error when it cannot be read.
std::vector<StepLine> read_steps(const std::string& path);

/// Reads PREFIX.f32 and PREFIX.index.
LogicalTensors read_logical_tensors(const std::string& prefix);

/// Reads PREFIX.jsonl, PREFIX.gradients.* and PREFIX.parameters.*. Throws: Error when one is
/// missing or short.
TrainingRun read_training_run(const std::string& prefix);

/// What two runs differ by, in the terms of invariant 1 (docs/concepts/architecture.md).
struct Difference {
  double loss = 0;       // largest relative difference over steps
  double grad_norm = 0;  // the same
  double gradient = 0;   // largest |a - b| / |a| in the 2-norm over tensors; key biases excepted
  double parameter = 0;  // largest absolute difference of an element
  std::string worst_gradient, worst_parameter;  // names
};
/// Throws: Error when steps or tensors do not match.
Difference compare(const TrainingRun& reference, const TrainingRun& other);
std::string describe(const Difference& difference);

/// The limits of invariant 1: loss 2e-7, gradient norm 1e-5, gradients of step 1 1e-5, final
/// parameters 3e-5.
bool within_limits(const Difference& difference);

}  // namespace trireme::test
