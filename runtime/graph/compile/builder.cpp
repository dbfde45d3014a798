#include "runtime/graph/compile/builder.h"

#include "runtime/core/at.h"

namespace trireme::graph {

bool ScopeTree::contains(int outer, int inner) const {
  while (inner != outer && inner != top) inner = parents_[at(inner)];
  return inner == outer;
}

int ScopeTree::common(int a, int b) const {
  while (!contains(a, b)) a = parents_[at(a)];
  return a;
}

int ScopeTree::child_towards(int outer, int inner) const {
  while (parents_[at(inner)] != outer) inner = parents_[at(inner)];
  return inner;
}

Recompute plan_recompute(const Graph& graph, const StageView& view,
                         const std::vector<std::vector<int>>& reads,
                         const std::vector<char>& kept) {
  const ScopeTree scopes(graph.recompute_parents());
  const std::size_t values = graph.values().size();
  Recompute out{std::vector<int>(values, top), {}};
  std::vector<char> used(values, 0);  // in backward, so it has to be there
  // Per root: made at these entries for another value, then dropped again.
  std::map<int, std::set<int>> in_passing;
  const auto scope_of = [&](int root) {
    return graph.nodes()[at(info(graph, root).node)].recompute;
  };
  for (const int n : view.nodes)
    for (const int v : graph.nodes()[at(n)].outputs)
      if (!kept[at(v)]) out.depth[at(v)] = scope_of(v);
  for (const int n : view.nodes)
    for (const int v : graph.nodes()[at(n)].sides)
      if (!kept[at(v)]) out.depth[at(v)] = scope_of(v);

  const auto keep_for = [&](int root, int reader_scope) {
    used[at(root)] = 1;
    out.depth[at(root)] = scopes.common(out.depth[at(root)], reader_scope);
  };
  for (const int n : view.nodes)
    for (const int root : reads[at(n)])
      if (!kept[at(root)]) keep_for(root, graph.nodes()[at(n)].recompute);

  // Readers come after producers, so one sweep in reverse sees all readers of a value before the
  // value itself.
  for (auto n = view.nodes.rbegin(); n != view.nodes.rend(); ++n) {
    const Node& node = graph.nodes()[at(*n)];
    if (!runs_forward(graph, node)) continue;
    std::set<int> reruns;
    const auto collect = [&](int root) {
      if (kept[at(root)]) return;
      const int depth = out.depth[at(root)];
      if (used[at(root)] && depth != top) reruns.insert(depth);
      const auto passing = in_passing.find(root);
      if (passing == in_passing.end()) return;
      for (const int entry : passing->second)
        if (entry != depth && scopes.contains(entry, depth)) reruns.insert(entry);
    };
    for (const int v : node.outputs)
      if (info(graph, v).root == v) collect(v);
    for (const int v : node.sides) collect(v);
    for (const int entry : reruns)
      for (const int input : node.inputs) {
        const int root = info(graph, input).root;
        if (info(graph, root).node < 0 || kept[at(root)]) continue;
        const bool inside = scopes.contains(entry, scope_of(root));
        const bool deeper =
            inside && out.depth[at(root)] != entry && scopes.contains(entry, out.depth[at(root)]);
        if (deeper)
          in_passing[root].insert(entry);
        else
          keep_for(root, inside ? out.depth[at(root)] : entry);
      }
    if (!reruns.empty()) out.reruns.emplace(node.id, std::move(reruns));
  }
  return out;
}

}  // namespace trireme::graph
