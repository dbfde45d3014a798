// MeshShape: ranks are one array reshaped to an ordered list of named axes, the last one fastest;
// every group of ranks that communicates is one slice of it. Pure arithmetic: no communicator,
// testable on one process.
#pragma once

#include <string>
#include <vector>

#include "trireme/core/dtype.h"

namespace trireme {

enum class Axis { pipeline, data, tensor };
const char* name(Axis axis);

class MeshShape {
 public:
  /// Pipeline slowest, tensor fastest, so that tensor groups sit inside a node.
  MeshShape(int data, int pipeline, int tensor);

  int size() const { return size_[0] * size_[1] * size_[2]; }
  int size(Axis axis) const;
  /// Position of `rank` along `axis`.
  int coordinate(int rank, Axis axis) const;
  /// The ranks of the group along `axis` that `rank` belongs to, in order of their coordinate.
  std::vector<int> group(int rank, Axis axis) const;
  /// The rank at these coordinates.
  int rank_at(int data, int pipeline, int tensor) const;
  /// "pipeline 2 x data 2 x tensor 2 = 8 ranks"
  std::string describe() const;

 private:
  int size_[3];  // in the order of Axis
};

}  // namespace trireme
