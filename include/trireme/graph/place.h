// Place: how a value is distributed over the tensor axis. Typed, because a misplaced collective
// doubles gradients silently: the trace rejects it instead. (Korthikanti et al. 2022,
// arXiv:2205.05198, illustrates f, g and their sequence-parallel forms.)
#pragma once

#include <ostream>
#include <vector>

namespace trireme {

enum class Place {
  whole,    // every tensor rank holds the same value, and computes the same whole gradient
  entered,  // the same value, but each rank computes one term of its gradient; `enter` made it
  split,    // each rank holds its part, and the gradient of its part
  term,  // each rank holds one term of a sum; it must leave (all-reduce or reduce-scatter) before
         // it is used
};
const char* name(Place place);
std::ostream& operator<<(std::ostream& out, Place place);

using Places = std::vector<Place>;

}  // namespace trireme
