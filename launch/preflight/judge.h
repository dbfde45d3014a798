// Which nodes and links a preflight names, by pure functions of what was measured.
#pragma once

#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "launch/preflight/report.h"

namespace trireme::preflight {

/// A figure of nodes.
struct FigureRule {
  std::string_view name, unit;
  bool more_is_better;
  bool names_nodes;  // a node that is slow in it is bad; otherwise it is only shown
};
std::span<const FigureRule> figure_rules();

struct Finding {
  std::string host;
  std::string peer;  // other end of a link; empty: the node itself is judged
  bool bad = false;  // must not be used; otherwise this is a warning
  std::string text;
};

/// Whether speeds are compared among the nodes of some kind: it has enough of them.
bool are_compared(const Report& report);

/// A value is slow among those of its kind when it has less than 0.85 times their median and a
/// robust score below -6. Fewer than 4 are not compared with each other: either may be the slow
/// one. With `before`, the value of the same node or link in an earlier report, less than 0.85 of
/// it is slow too. Values are rates: more is better.
struct Slowness {
  bool slow = false;
  double ratio = 1;  // to the median, or to the earlier value
  bool against_before = false;
};
Slowness slowness(double value, std::span<const double> all, std::optional<double> before);

/// Nodes that are slow, and links. A node most of whose links are slow, of two or more, is named in
/// place of these links.
std::vector<Finding> slow_ones(const Report& report, const Report* before);

/// Groups of GPUs that are slow among those of their kind.
std::vector<Finding> slow_groups(const Report& report, const Report* before);

/// Nodes whose facts differ from those of most others: programs and results of products make a node
/// bad, kernels and drivers are warnings. Results are compared among nodes of one kind.
std::vector<Finding> different_ones(const Report& report);

/// All of the above, and what nodes have found themselves. GPUs are judged as nodes are.
std::vector<Finding> judge(const Report& report, const Report* before);
bool any_bad(const std::vector<Finding>& findings);

/// Who is measured once more before it is blamed: nodes, and links by their ends.
struct Suspects {
  std::set<std::string> nodes;
  std::set<std::pair<std::string, std::string>> links;
};
Suspects suspects(const std::vector<Finding>& slow);
/// The better of two measurements of each node, link and group, and the faults of both.
Report better_of(const Report& first, const Report& second);

}  // namespace trireme::preflight
