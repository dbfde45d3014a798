// Box and Extent: which part of a logical (global) tensor something holds. Layout-free: no rank
// appears here. Gathering, checkpoints and tests describe tensors only by these types.
#pragma once

#include <string>
#include <vector>

#include "trireme/core/shape.h"

namespace trireme {

/// A rectangular part of a tensor: `begin[d] <= index < begin[d] + size[d]`.
struct Box {
  Shape begin;
  Shape size;
  Index count() const { return size.count(); }
  friend bool operator==(const Box&, const Box&) = default;
};

/// The part of one logical tensor that this rank holds, as a list of boxes in the order in which
/// they lie in memory (a flat slice of an optimizer shard is several boxes).
struct Extent {
  std::string name;
  DType dtype = DType::f32;
  Shape global;
  std::vector<Box> boxes;
};

/// The boxes that cover elements [begin, end) of the row-major flattening of `box`, in order.
std::vector<Box> boxes_of_flat_range(const Box& box, Index begin, Index end);

}  // namespace trireme
