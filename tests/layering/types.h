// The types and names that a source file declares, found in its text alone.
#pragma once

#include <string>
#include <vector>

namespace trireme::layering {

struct DeclaredName {
  std::string name;  // with its namespaces and the types around it: "trireme::comm::Place"
  int line;
  bool operator==(const DeclaredName&) const = default;
};

/// Every struct, class, union and enum with a body, in the order of the text. Not those that other
/// files cannot see: of anonymous namespaces and inside functions. Nor declarations without a body.
std::vector<DeclaredName> types_of(const std::string& text);

/// What a file adds to namespace trireme itself: types, functions, variables and aliases, without
/// "trireme::". Not members of what is declared elsewhere ("struct Plan::State {"), specialisations
/// of templates, and declarations of types without a body, which name what others define.
std::vector<DeclaredName> names_in_trireme(const std::string& text);

}  // namespace trireme::layering
