// What jobs leave to be compared: logical tensors of --dump-tensors and of checkpoints, and the
// losses of --metrics.
#pragma once

#include <string>
#include <vector>

#include "trireme/core/box.h"

#include "runtime/store/inspect/inspect.h"

namespace trireme::verify {

/// PREFIX.index and PREFIX.f32 of --dump-tensors.
class DumpedTensors {
 public:
  struct Tensor {
    std::string name;
    Shape global;
    Index offset_bytes;
  };
  /// Throws: Error when a file is missing or is none.
  explicit DumpedTensors(const std::string& prefix);
  /// In the order of the model.
  const std::vector<Tensor>& all() const { return all_; }
  const Tensor* find(const std::string& name) const;  // null: none
  std::vector<float> read(const Tensor& tensor) const;

 private:
  std::string path_;
  std::vector<Tensor> all_;
};

/// The part of a tensor that a rank holds. rank -1: it is not known which.
struct Piece {
  Box box;
  int rank = -1;
};

/// The parameters of a committed step.
class SavedParameters {
 public:
  /// Throws: Error when the step is missing or damaged.
  explicit SavedParameters(const std::string& step_directory);
  const OpenedStep& step() const { return step_; }
  /// Throws: Error when there is none of this name and shape.
  std::vector<float> read(const std::string& name, const Shape& global) const;
  /// Which rank has written which part; empty: there is no such tensor.
  std::vector<Piece> pieces(const std::string& name) const;

 private:
  OpenedStep step_;
};

Box whole_box(const Shape& global);

struct StepLine {
  double loss, grad_norm;  // NaN: no number
};
/// Throws: Error when the file cannot be read.
std::vector<StepLine> read_steps(const std::string& path);

}  // namespace trireme::verify
