// Lists of names of options in a source file: what is known of an option belongs to its
// declaration.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace trireme::layering {

/// Names that a text declares as options: `command.flag("--a,-b", ...)`.
std::set<std::string> options_declared_in(const std::string& text);

struct OptionList {
  std::vector<std::string> names;
  int line;  // of the first
  bool operator==(const OptionList&) const = default;
};
/// {"--a", "--b", "--c"}, and the rows of {{"--a", 1}, {"--b", 2}, {"--c", 3}}: at least three
/// names in a row. Words of a command line, {"--a", "1", "--b", "2"}, are none.
std::vector<OptionList> option_lists_in(const std::string& text);

}  // namespace trireme::layering
