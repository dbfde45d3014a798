// MeshShape: ranks are one array reshaped to an ordered list of named axes, the last one fastest;
// every group of ranks that communicates is one slice of it. Pure arithmetic: no communicator,
// testable on one process.
#pragma once

#include <string>
#include <string_view>
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

class MeshShape {
 public:
  struct Extent {
    Axis axis;
    int size;
  };
  struct Position {
    Axis axis;
    int coordinate;
  };

  /// The axes in this order, the last one fastest. Throws: Error when there are none, a name occurs
  /// twice, an axis has no ranks, or there are more ranks than an int can count.
  explicit MeshShape(std::vector<Extent> axes);
  /// The axes of training: pipeline slowest, tensor fastest, so that tensor groups are within a
  /// node.
  MeshShape(int data, int pipeline, int tensor);

  const std::vector<Extent>& axes() const { return axes_; }
  int size() const { return size_; }
  int size(Axis axis) const { return axes_[index(axis)].size; }
  /// Position of `axis` in axes(). Throws: Error when the mesh has no such axis.
  std::size_t index(Axis axis) const;
  /// Position of `rank` along `axis`.
  int coordinate(int rank, Axis axis) const;
  /// The ranks of the group along `axis` that `rank` belongs to, in order of their coordinate.
  std::vector<int> group(int rank, Axis axis) const;
  /// The rank at these coordinates; 0 along axes not named. Throws: Error for an axis named twice.
  int rank_at(const std::vector<Position>& positions) const;
  /// "pipeline 2 x data 2 x tensor 2 = 8 ranks"
  std::string describe() const;

 private:
  /// Distance in ranks between neighbours along an axis.
  int stride(std::size_t index) const;

  std::vector<Extent> axes_;
  int size_ = 1;
};

}  // namespace trireme
