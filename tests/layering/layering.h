// The layering check: reads the #include lines of the tree and names every arrow that goes up,
// every third-party header in a place where it may not be, and every file that is too long.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace trireme::layering {

/// One sentence for each broken rule below `root`, beginning with `file:line`; empty when all hold.
/// Sorted.
std::vector<std::string> problems(const std::filesystem::path& root);

}  // namespace trireme::layering
