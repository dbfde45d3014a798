#include "trireme/core/mesh_shape.h"

#include <limits>

#include "trireme/core/error.h"

namespace trireme {
namespace {

/// "pipeline 2 x data 2 x tensor 2"
std::string list(const std::vector<MeshShape::Extent>& axes) {
  std::string text;
  for (const auto& [axis, size] : axes)
    text += str(text.empty() ? "" : " x ", axis.name(), " ", size);
  return text;
}

}  // namespace

MeshShape::MeshShape(std::vector<Extent> axes) : axes_(std::move(axes)) {
  require(!axes_.empty(), "a mesh has at least one axis");
  for (std::size_t i = 0; i < axes_.size(); ++i) {
    const auto [axis, size] = axes_[i];
    require(index(axis) == i, "the axis ", axis.name(), " of the mesh is named twice");
    // Texts are made when they are needed only: a search makes very many meshes.
    if (size < 1)
      throw Error(str("every axis of the mesh has at least one rank, got ", list(axes_)));
    if (size_ > std::numeric_limits<int>::max() / size)
      throw Error(str("a mesh of ", list(axes_), " ranks is larger than ",
                      std::numeric_limits<int>::max()));
    size_ *= size;
  }
}

MeshShape::MeshShape(int data, int pipeline, int tensor)
    : MeshShape({{Axis::pipeline, pipeline}, {Axis::data, data}, {Axis::tensor, tensor}}) {}

std::size_t MeshShape::index(Axis axis) const {
  for (std::size_t i = 0; i < axes_.size(); ++i)
    if (axes_[i].axis == axis) return i;
  throw Error(str("the mesh ", list(axes_), " has no axis ", axis.name()));
}

int MeshShape::stride(std::size_t index) const {
  int stride = 1;
  for (std::size_t i = index + 1; i < axes_.size(); ++i) stride *= axes_[i].size;
  return stride;
}

int MeshShape::coordinate(int rank, Axis axis) const {
  require(0 <= rank && rank < size(), "rank ", rank, " is not in a mesh of ", size(), " ranks");
  const std::size_t i = index(axis);
  return rank / stride(i) % axes_[i].size;
}

std::vector<int> MeshShape::group(int rank, Axis axis) const {
  const int step = stride(index(axis));
  const int first = rank - coordinate(rank, axis) * step;
  std::vector<int> ranks;
  for (int i = 0; i < size(axis); ++i) ranks.push_back(first + i * step);
  return ranks;
}

int MeshShape::rank_at(const std::vector<Position>& positions) const {
  int rank = 0;
  std::vector<bool> named(axes_.size());
  for (const auto& [axis, coordinate] : positions) {
    const std::size_t i = index(axis);
    if (named[i])
      throw Error(str("the axis ", axis.name(), " of a position is named twice in ", describe()));
    named[i] = true;
    if (coordinate < 0 || coordinate >= axes_[i].size)
      throw Error(str("no rank at ", axis.name(), " ", coordinate, " of ", describe()));
    rank += coordinate * stride(i);
  }
  return rank;
}

std::string MeshShape::describe() const { return str(list(axes_), " = ", size(), " ranks"); }

}  // namespace trireme
