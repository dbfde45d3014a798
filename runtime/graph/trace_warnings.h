// What decides a user's model although the program does not say it: names that come from the order
// of a trace, and names that are there twice.
//
// Not installed; modules above may include it.
#pragma once

#include <string>
#include <vector>

#include "trireme/graph/graph.h"

namespace trireme {

/// Returns a sentence for each of these, with the names and what to do: ops that draw random
/// numbers, which depend on the op's name, of one name in one scope, where neither reads the other
/// (C++ does not say which argument of a call is evaluated first); inputs that are declared in
/// another order than the one in which they are read; and layers of one name in one scope, which
/// share their weights. Sharing by the Value of one parameter is none.
std::vector<std::string> warnings_of_trace(const Graph& graph);

}  // namespace trireme
