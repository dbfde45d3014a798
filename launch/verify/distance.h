// How far a tensor of the layout is from that of one rank, as a whole and in each rank's part.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "launch/verify/tensors.h"

namespace trireme::verify {

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
