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

/// Whether a role spans an axis. Axes that a mesh lacks count as size 1.
bool spans(Role role, Axis axis) {
  switch (role) {
    case Role::stage:
      return axis == Axis::pipeline;
    case Role::batch:
    case Role::gradient:
    case Role::shard:
      return axis == Axis::data;
    case Role::tensor:
      return axis == Axis::tensor;
    case Role::layers:
      return axis != Axis::pipeline;
    case Role::model:
      return axis != Axis::data;
  }
  throw Error("a group has no such role");
}

/// The coordinates of a rank, each as `show` prints it, with `between` them.
template <class Show>
std::string place_of(const MeshShape& shape, int rank, const char* between, Show show) {
  std::string text;
  for (const auto& [axis, size] : shape.axes())
    text += str(text.empty() ? "" : between, show(axis), shape.coordinate(rank, axis));
  return text;
}

}  // namespace

const char* name(Role role) {
  switch (role) {
    case Role::stage:
      return "stage";
    case Role::batch:
      return "batch";
    case Role::gradient:
      return "gradient";
    case Role::shard:
      return "shard";
    case Role::tensor:
      return "tensor";
    case Role::layers:
      return "layers";
    case Role::model:
      return "model";
  }
  throw Error("a group has no such role");
}

MeshShape::MeshShape(std::vector<Extent> axes) : axes_(std::move(axes)) {
  require(!axes_.empty(), "a mesh has at least one axis");
  require(axes_.size() <= 32, "a mesh has at most 32 axes, got ", axes_.size());
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

std::optional<Axis> MeshShape::only_axis(Role role) const {
  std::optional<Axis> only;
  for (const auto& [axis, size] : axes_) {
    if (!spans(role, axis)) continue;
    if (only) return std::nullopt;
    only = axis;
  }
  return only;
}

MeshShape::Span MeshShape::span(Along along) const {
  if (const Axis* axis = std::get_if<Axis>(&along)) return 1U << index(*axis);
  Span span = 0;
  for (std::size_t i = 0; i < axes_.size(); ++i)
    if (spans(std::get<Role>(along), axes_[i].axis)) span |= 1U << i;
  return span;
}

int MeshShape::size_of(Span span) const {
  int size = 1;
  for (std::size_t i = 0; i < axes_.size(); ++i)
    if (span >> i & 1U) size *= axes_[i].size;
  return size;
}

int MeshShape::coordinate(int rank, Along along) const {
  require(0 <= rank && rank < size(), "rank ", rank, " is not in a mesh of ", size(), " ranks");
  const Span axes = span(along);
  int coordinate = 0;
  for (std::size_t i = 0; i < axes_.size(); ++i)
    if (axes >> i & 1U) coordinate = coordinate * axes_[i].size + rank / stride(i) % axes_[i].size;
  return coordinate;
}

int MeshShape::distance(Span span, int coordinate) const {
  int distance = 0;
  for (std::size_t i = axes_.size(); i-- > 0;) {
    if (!(span >> i & 1U)) continue;
    distance += coordinate % axes_[i].size * stride(i);
    coordinate /= axes_[i].size;
  }
  return distance;
}

std::vector<int> MeshShape::group(int rank, Along along) const {
  const Span axes = span(along);
  const int first = rank - distance(axes, coordinate(rank, along));
  std::vector<int> ranks;
  for (int i = 0; i < size_of(axes); ++i) ranks.push_back(first + distance(axes, i));
  return ranks;
}

int MeshShape::rank_at(const std::vector<Position>& positions) const {
  int rank = 0;
  Span named = 0;
  for (const auto& [along, coordinate] : positions) {
    const Span axes = span(along);
    const char* of = std::visit([](auto which) { return name(which); }, along);
    if (named & axes)
      throw Error(str("the axis ", of, " of a position is named twice in ", describe()));
    named |= axes;
    if (coordinate < 0 || coordinate >= size_of(axes))
      throw Error(str("no rank at ", of, " ", coordinate, " of ", describe()));
    rank += distance(axes, coordinate);
  }
  return rank;
}

std::string MeshShape::describe() const { return str(list(axes_), " = ", size(), " ranks"); }

std::string MeshShape::place(int rank) const {
  return place_of(*this, rank, ", ", [](Axis axis) { return str(axis.name(), " "); });
}

std::string MeshShape::short_place(int rank) const {
  return place_of(*this, rank, " ", [](Axis axis) { return str(axis.name()[0], "p"); });
}

}  // namespace trireme
