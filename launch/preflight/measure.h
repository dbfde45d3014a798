// The order of a preflight over all of its processes: everything is measured once, and what is slow
// once more before it is blamed.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trireme/comm/host.h"

#include "launch/preflight/report.h"

namespace trireme::preflight {

/// What one process measures.
struct Work {
  std::function<Node()> check;                 // everything that takes no other process
  std::function<void(Node&)> measure_speed;    // the figures that depend on speed, once more
  std::function<Pair(int a, int b)> link;      // both of the two call it, a < b; null: no links
  std::function<std::vector<Group>()> groups;  // collective; null: none
};

/// Collective; `names` by rank. On rank 0 what all have measured, each with a name of its own. In
/// log2 N rounds every process is measured with as many others. `all_twice`: not only what is slow.
Report measure_all(const Host& host, const std::vector<std::string>& names, const Work& work,
                   bool all_twice);

}  // namespace trireme::preflight
