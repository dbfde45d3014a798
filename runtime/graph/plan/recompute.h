// Which values are kept from forward to backward, and which nodes run again when backward enters a
// recompute scope (rule 7). Checkpointing as in Chen et al. 2016 (arXiv:1604.06174), nested by
// scopes.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "runtime/graph/plan/cut.h"

namespace trireme::graph {

constexpr int top = -1;  // outside of all recompute scopes

/// The tree of recompute scopes.
class ScopeTree {
 public:
  explicit ScopeTree(const std::vector<int>& parents) : parents_(parents) {}
  /// Is `outer` the scope `inner`, or around it?
  bool contains(int outer, int inner) const;
  /// The innermost scope around both.
  int common(int a, int b) const;
  /// The child of `outer` on the way to `inner`.
  int child_towards(int outer, int inner) const;

 private:
  const std::vector<int>& parents_;
};

struct Recompute {
  /// Per storage root: where it is kept. `top`: from forward on. Otherwise from the entry of that
  /// scope in backward.
  std::vector<int> depth;
  /// Nodes that run again: the scopes at whose entry they do.
  std::map<int, std::set<int>> reruns;

  bool runs_again(int node, int scope) const {
    const auto found = reruns.find(node);
    return found != reruns.end() && found->second.count(scope) != 0;
  }
};
/// `reads[m]`: storage roots that the backward of node m reads. `kept`: roots that are there
/// anyway.
Recompute plan_recompute(const Graph& graph, const StageView& view,
                         const std::vector<std::vector<int>>& reads, const std::vector<char>& kept);

}  // namespace trireme::graph
