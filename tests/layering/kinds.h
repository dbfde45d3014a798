// Where a kind is decided so that a new kind is decided too: a switch over all of them, which the
// compiler (-Wswitch) checks unless it has a default.
#pragma once

#include <string>
#include <vector>

namespace trireme::layering {

/// Lines of `default:` in a switch whose cases are enumerators, Kind::x.
std::vector<int> lines_of_defaults(const std::string& text);

/// Lines that compare with an enumerator of `kind`, "MlpKind", by == or !=: what is not named goes
/// where another kind goes.
std::vector<int> lines_of_comparisons(const std::string& text, const std::string& kind);

}  // namespace trireme::layering
