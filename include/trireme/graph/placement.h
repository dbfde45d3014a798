// Placement: how a value is distributed over the tensor axis. Typed, because a misplaced collective
// doubles gradients silently: the trace rejects it instead. (Korthikanti et al. 2022,
// arXiv:2205.05198, illustrates f, g and their sequence-parallel forms.)
#pragma once

#include <ostream>
#include <vector>

namespace trireme {

enum class Placement {
  replicated,        // every tensor rank holds the same value, and computes its complete gradient
  partial_gradient,  // the same value, but each rank computes one term of its gradient: `enter`
  sharded,           // each rank holds its part, and the gradient of its part
  partial,           // each rank holds one term of a sum; it must leave (all-reduce or
                     // reduce-scatter) before it is used
};
const char* name(Placement placement);
std::ostream& operator<<(std::ostream& out, Placement placement);

using Placements = std::vector<Placement>;

}  // namespace trireme
