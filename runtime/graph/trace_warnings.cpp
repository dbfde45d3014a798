#include "runtime/graph/trace_warnings.h"

#include <algorithm>
#include <map>
#include <utility>

#include "trireme/core/error.h"

namespace trireme {
namespace {

using Nodes = std::vector<const Node*>;

/// The name without "#2".
std::string base_of(const Node& node) { return node.name.substr(0, node.name.find('#')); }

std::string listed(const Nodes& nodes) {
  std::string all;
  for (const Node* node : nodes) all += (node == nodes.front() ? "" : ", ") + node->name;
  return all;
}

/// Ops whose results depend on their names.
bool draws_numbers(const Node& node) { return node.op->name() == "dropout"; }

/// Whether `later` reads, through other ops, what `earlier` has made.
bool reads(const Graph& graph, const Node& later, const Node& earlier) {
  std::vector<bool> reached(graph.nodes().size());
  reached[static_cast<std::size_t>(later.id)] = true;
  for (int id = later.id; id > earlier.id; --id) {
    if (!reached[static_cast<std::size_t>(id)]) continue;
    for (const int input : graph.nodes()[static_cast<std::size_t>(id)].inputs)
      if (const int from = graph.values()[static_cast<std::size_t>(input)].node; from >= 0)
        reached[static_cast<std::size_t>(from)] = true;
  }
  return reached[static_cast<std::size_t>(earlier.id)];
}

void add_random(const Graph& graph, std::vector<std::string>& warnings) {
  std::map<std::string, const Node*> last;  // by the name without a number
  for (const Node& node : graph.nodes()) {
    if (!draws_numbers(node)) continue;
    const Node*& before = last[base_of(node)];
    if (before != nullptr && !reads(graph, node, *before)) {
      warnings.push_back(
          str(before->name, " and ", node.name,
              " draw their numbers by names that the order of their calls gives them, which "
              "compilers choose inside of one expression; call each in a g.scope(NAME, ...) of its "
              "own"));
      return;
    }
    before = &node;
  }
}

/// The first node that reads a value; one more than all nodes: none.
int first_reader(const Graph& graph, int value) {
  const auto& nodes = graph.nodes();
  const auto found = std::find_if(nodes.begin(), nodes.end(), [&](const Node& node) {
    return std::find(node.inputs.begin(), node.inputs.end(), value) != node.inputs.end();
  });
  return static_cast<int>(found - nodes.begin());
}

void add_inputs(const Graph& graph, std::vector<std::string>& warnings) {
  const std::vector<int>& inputs = graph.inputs();
  const auto name = [&](std::size_t i) -> const std::string& {
    return graph.values()[static_cast<std::size_t>(inputs[i])].name;
  };
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    if (first_reader(graph, inputs[i - 1]) <= first_reader(graph, inputs[i])) continue;
    warnings.push_back(
        str("input '", name(i - 1), "' is declared before '", name(i),
            "' and read after it: fill() gets them in the order of g.input(), which compilers "
            "choose among the arguments of one call; declare them in statements, in the order of "
            "their use"));
    return;
  }
}

/// The parts of a name before the last '/' or '.', with '/' between them.
std::string scope_of(const std::string& name, char separator) {
  std::string scope = name.substr(0, std::min(name.rfind(separator), name.size()));
  if (name.find(separator) == std::string::npos) return "";
  std::replace(scope.begin(), scope.end(), separator, '/');
  return scope;
}

/// Scopes may have a '.' in their names, as blocks have: both as one character.
std::string in_slashes(std::string scope) {
  std::replace(scope.begin(), scope.end(), '.', '/');
  return scope;
}

bool is_norm(const Node& node) { return node.op->name().find("norm") != std::string::npos; }

/// A layer is a scope with the name of the layer, in which are its weights and its op; the op of a
/// norm is around that scope.
bool is_of_layer(const Node& node, const Parameter& parameter) {
  const std::string scope = in_slashes(scope_of(node.name, '/')),
                    layer = scope_of(parameter.name(), '.');
  return !layer.empty() && (scope == layer || (is_norm(node) && scope == scope_of(layer, '/')));
}

void add_shared(const Graph& graph, std::vector<std::string>& warnings) {
  std::map<std::string, bool> said;  // by layer
  for (const Parameter& parameter : graph.parameters()) {
    std::map<std::string, Nodes> readers;  // by the name without a number
    for (const Node& node : graph.nodes())
      if (std::find(node.inputs.begin(), node.inputs.end(), parameter.value) != node.inputs.end() &&
          is_of_layer(node, parameter))
        readers[base_of(node)].push_back(&node);
    for (const auto& [name, nodes] : readers) {
      if (nodes.size() < 2 || std::exchange(said[name], true)) continue;
      warnings.push_back(str("the weights '", parameter.name(), "' are one for ", nodes.size(),
                             " layers (", listed(nodes),
                             "), because these have the same name in the same scope; give each a "
                             "name or a g.block of its own if they are not meant to share"));
    }
  }
}

}  // namespace

std::vector<std::string> warnings_of_trace(const Graph& graph) {
  std::vector<std::string> warnings;
  add_random(graph, warnings);
  add_inputs(graph, warnings);
  add_shared(graph, warnings);
  return warnings;
}

}  // namespace trireme
