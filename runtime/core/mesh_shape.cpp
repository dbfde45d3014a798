#include "trireme/core/mesh_shape.h"

#include <limits>

#include "trireme/core/error.h"

namespace trireme {

const char* name(Axis axis) {
  switch (axis) {
    case Axis::pipeline:
      return "pipeline";
    case Axis::data:
      return "data";
    case Axis::tensor:
      return "tensor";
  }
  return "?";
}

MeshShape::MeshShape(int data, int pipeline, int tensor) : size_{pipeline, data, tensor} {
  require(data >= 1 && pipeline >= 1 && tensor >= 1,
          "every axis of the mesh has at least one rank, got pipeline ", pipeline, " x data ", data,
          " x tensor ", tensor);
  require(Index{data} * pipeline <= std::numeric_limits<int>::max() / tensor, "a mesh of ", data,
          " x ", pipeline, " x ", tensor, " ranks is larger than ",
          std::numeric_limits<int>::max());
}

int MeshShape::size(Axis axis) const { return size_[static_cast<int>(axis)]; }

int MeshShape::coordinate(int rank, Axis axis) const {
  require(0 <= rank && rank < size(), "rank ", rank, " is not in a mesh of ", size(), " ranks");
  switch (axis) {
    case Axis::tensor:
      return rank % size_[2];
    case Axis::data:
      return rank / size_[2] % size_[1];
    case Axis::pipeline:
      return rank / (size_[2] * size_[1]);
  }
  return 0;
}

std::vector<int> MeshShape::group(int rank, Axis axis) const {
  const int stride = axis == Axis::tensor ? 1 : axis == Axis::data ? size_[2] : size_[2] * size_[1];
  const int first = rank - coordinate(rank, axis) * stride;
  std::vector<int> ranks;
  for (int i = 0; i < size(axis); ++i) ranks.push_back(first + i * stride);
  return ranks;
}

int MeshShape::rank_at(int data, int pipeline, int tensor) const {
  require(0 <= data && data < size_[1] && 0 <= pipeline && pipeline < size_[0] && 0 <= tensor &&
              tensor < size_[2],
          "no rank at data ", data, ", pipeline ", pipeline, ", tensor ", tensor, " of ",
          describe());
  return (pipeline * size_[1] + data) * size_[2] + tensor;
}

std::string MeshShape::describe() const {
  return str("pipeline ", size_[0], " x data ", size_[1], " x tensor ", size_[2], " = ", size(),
             " ranks");
}

}  // namespace trireme
