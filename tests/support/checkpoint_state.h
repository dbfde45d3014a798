// What a checkpoint holds, read without the program under test: every logical tensor, byte by byte;
// and the lines of a metrics file by step.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trireme/core/box.h"

#include "tests/support/training_run.h"

namespace trireme::test {

struct StoredTensor {
  DType dtype;
  Shape global;
  std::vector<std::byte> bytes;
};
using StoredTensors = std::map<std::string, StoredTensor>;

/// All tensors of a committed step. Throws: Error when anything of it does not hold.
StoredTensors read_checkpoint(const std::string& step_directory);
/// The first tensor and element whose bits differ, or a tensor that only one side has; "" when
/// nothing differs.
std::string first_difference(const StoredTensors& a, const StoredTensors& b);
/// The parameters, by the names that --dump-tensors gives them.
LogicalTensors parameters_of(const StoredTensors& tensors);

/// Numbers of the newest and of all committed steps in a directory, newest first.
std::vector<Index> committed_steps(const std::string& root);

struct MetricsLine {
  double loss, grad_norm, step_ms;
  std::string loss_bits;
};
/// Throws: Error for two lines of one step, or a torn line.
std::map<Index, MetricsLine> read_metrics(const std::string& path);
/// The steps in order, to be compared with another run's.
std::vector<StepLine> steps_of(const std::map<Index, MetricsLine>& lines, Index after);

}  // namespace trireme::test
