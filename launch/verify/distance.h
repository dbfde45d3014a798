// What jobs leave to be compared: logical tensors of --dump-tensors and of checkpoints, and losses.
// And how far a tensor of the layout is from that of one rank, as a whole and in each rank's part.
#pragma once

#include <span>
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

/// One tensor on both sides. `one`: of one rank in bf16, where `truth` is that of one rank in fp32;
/// else empty.
struct TensorSides {
  std::span<const float> truth, one, layout;
};

struct Distance {
  double norm = 0;               // norm of the truth; all of these are 2-norms
  double one = 0;                // distance of one rank's bf16 from the truth
  double layout = 0;             // the layout from the truth; infinite where a value is not finite
  std::size_t piece = 0;         // the one that is farthest for its size
  std::size_t pieces_apart = 0;  // those as far as a thousandth of that one
  Index element = -1;            // that is farthest, in row-major order; -1: all are equal
  float truth_there = 0, layout_there = 0;

  /// Relative to the truth.
  double relative() const;
};
/// `pieces`: cover the tensor; empty: it is one.
Distance distance_of(const TensorSides& sides, const Shape& global,
                     const std::vector<Piece>& pieces);

/// "[3, 0]".
std::string index_text(Index element, const Shape& global);
/// "[0:16, 0:64]".
std::string box_text(const Box& box);

}  // namespace trireme::verify
