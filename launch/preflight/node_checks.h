// What one node finds out about itself: its facts, figures, faults and warnings.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "launch/preflight/report.h"

namespace trireme::preflight {

struct Checks {
  bool thorough = false;  // the long preflight
  double steady_s = 30;   // time for products in the long preflight
  std::string run_dir;    // to be written to; empty: not checked
  std::function<void(std::string_view check)> begins = [](std::string_view) {};
};
/// A check that cannot be made is a fault of the node.
void guarded(Node& node, const Checks& checks, std::string_view what,
             const std::function<void()>& check);

/// Everything that takes no part of another node. Never throws: what fails is a fault.
Node check_node(const std::string& host, const Checks& checks);
/// The figures that depend on speed, once more.
void measure_speed(Node& node, const Checks& checks);

}  // namespace trireme::preflight
