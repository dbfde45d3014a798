// The layering check: reads the #include lines of the tree and names every arrow that goes up,
// every third-party header in a place where it may not be, and every file that is too long.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace trireme::layering {

using Imports = std::map<std::string, std::set<std::string>>;

/// Which modules a module may include, besides itself.
const Imports& imports_of_modules();

/// One sentence for each broken rule below `root`, beginning with `file:line`; empty when all hold.
/// Sorted.
std::vector<std::string> problems(const std::filesystem::path& root);

}  // namespace trireme::layering
