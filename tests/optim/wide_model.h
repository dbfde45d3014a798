// A model whose parameters are large.
#pragma once

#include "tests/optim/tiny_model.h"

namespace trireme::testing {

/// Parameters of a size at which writing is shared by copies: whole, tied and padded, split.
inline Value wide_model(Graph& g, int blocks) {
  const auto mix = [&](Placement placement, Values in) {
    return g.apply(std::make_shared<Mix>(placement), in).front();
  };
  constexpr Index width = 128;
  const auto table = [&] {
    return g.parameter("table", {1001, width}, shard_padded(0), normal(0.5f));
  };
  Value x = mix(Placement::replicated, {g.input("x", {2, width}), table()});
  x = mix(Placement::replicated,
          {x, g.parameter("position", {513, width}, replicated(), normal(0.5f))});
  for (int i = 0; i < blocks; ++i)
    x = g.block("block", i, [&] {
      const Value norm = g.parameter("norm", {width}, replicated(), ones());
      const Value h = mix(Placement::partial_gradient, {mix(Placement::replicated, {x, norm})});
      const Value up = g.parameter("up", {4 * width, width}, shard(0), normal(0.1f));
      return mix(Placement::replicated, {mix(Placement::sharded, {h, up})});
    });
  x = mix(Placement::replicated, {x, table()});
  return g.apply(std::make_shared<Total>(), {x}).front();
}

}  // namespace trireme::testing
