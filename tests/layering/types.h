// The types that a source file defines, found in its text alone.
#pragma once

#include <string>
#include <vector>

namespace trireme::layering {

struct DefinedType {
  std::string name;  // with its namespaces and the types around it: "trireme::comm::Place"
  int line;
  bool operator==(const DefinedType&) const = default;
};

/// Every struct, class, union and enum with a body, in the order of the text. Not those that other
/// files cannot see: of anonymous namespaces and inside functions. Nor declarations without a body.
std::vector<DefinedType> types_of(const std::string& text);

}  // namespace trireme::layering
