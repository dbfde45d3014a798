// A model of two small blocks, for tests of the loop around steps.
#pragma once

#include "trireme/nn/nn.h"

namespace trireme {

inline constexpr Index two_blocks_width = 4;

/// Inputs x and y, (1, two_blocks_width); runs under any split.
inline Value two_blocks(Graph& g) {
  constexpr Index width = two_blocks_width;
  Value x = g.input("x", {1, width});
  for (int i = 0; i < 2; ++i)
    x = g.block("block", i,
                [&] { return row_linear(column_linear(x, "up", 2 * width), "down", width); });
  return squared_error(x, g.input("y", {1, width}));
}

}  // namespace trireme
