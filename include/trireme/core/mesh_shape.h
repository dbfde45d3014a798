// MeshShape: ranks are one array reshaped to an ordered list of named axes, the last one fastest;
// every group of ranks that communicates is one slice of it. Pure arithmetic: no communicator,
// testable on one process.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "trireme/core/dtype.h"

namespace trireme {

/// One direction of the mesh, known by its name: a literal, or a text that outlives the mesh.
class Axis {
 public:
  static const Axis pipeline, data, tensor;

  explicit constexpr Axis(const char* name) : name_(name) {}
  constexpr const char* name() const { return name_; }
  friend constexpr bool operator==(Axis a, Axis b) {
    return std::string_view(a.name_) == std::string_view(b.name_);
  }

 private:
  const char* name_;
};
inline constexpr Axis Axis::pipeline{"pipeline"};
inline constexpr Axis Axis::data{"data"};
inline constexpr Axis Axis::tensor{"tensor"};

inline const char* name(Axis axis) { return axis.name(); }

/// What the ranks of a group do together. Programs ask for roles; which axes of a mesh a role spans
/// is known to MeshShape alone, so that a new axis changes no other place.
enum class Role {
  stage,     // each rank runs other stages of the pipeline
  batch,     // each rank computes other samples
  gradient,  // the ranks sum their gradients
  shard,     // each rank updates another part of the parameters that all have
  tensor,    // each rank has another part of each tensor
  layers,    // the ranks of one stage: they have the same layers
  model,     // the ranks that have one copy of the model together: its stages and parts of tensors
};
const char* name(Role role);

class MeshShape {
 public:
  struct Extent {
    Axis axis;
    int size;
  };
  /// What a group lies along: an axis, or all axes of a role (the last one is the fastest). Axes of
  /// a role that the mesh lacks count as size 1; an axis that it lacks is an Error.
  using Along = std::variant<Axis, Role>;
  struct Position {
    Along along;
    int coordinate;
  };

  /// The axes in this order, the last one fastest. Throws: Error when there are none, a name occurs
  /// twice, an axis has no ranks, or there are more than 32 axes or more ranks than an int can
  /// count.
  explicit MeshShape(std::vector<Extent> axes);
  /// The axes of training: pipeline slowest, tensor fastest, so that tensor groups are within a
  /// node.
  MeshShape(int data, int pipeline, int tensor);

  const std::vector<Extent>& axes() const { return axes_; }
  int size() const { return size_; }
  /// Position of `axis` in axes(). Throws: Error when the mesh has no such axis.
  std::size_t index(Axis axis) const;
  /// The axis of the mesh that a role spans, where it is just one.
  std::optional<Axis> only_axis(Role role) const;

  /// The size of each group.
  int size(Along along) const { return size_of(span(along)); }
  /// Position of `rank` in its group.
  int coordinate(int rank, Along along) const;
  /// The ranks of the group that `rank` belongs to, in the order of their coordinates.
  std::vector<int> group(int rank, Along along) const;
  /// The rank at these coordinates; 0 along axes not named. Throws: Error for an axis named twice.
  int rank_at(const std::vector<Position>& positions) const;

  /// "pipeline 2 x data 2 x tensor 2 = 8 ranks"
  std::string describe() const;
  /// Where a rank is: "pipeline 1, data 0, tensor 1", and in short "pp1 dp0 tp1".
  std::string place(int rank) const;
  std::string short_place(int rank) const;

 private:
  /// A set of axes: bit i is axes()[i].
  using Span = unsigned;
  Span span(Along along) const;
  int size_of(Span span) const;
  /// Distance in ranks from coordinate 0 to `coordinate` of a group.
  int distance(Span span, int coordinate) const;
  /// Distance in ranks between neighbours along an axis.
  int stride(std::size_t index) const;

  std::vector<Extent> axes_;
  int size_ = 1;
};

}  // namespace trireme
