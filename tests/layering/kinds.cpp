#include "tests/layering/kinds.h"

#include <algorithm>
#include <regex>

#include <fmt/core.h>

#include "tests/layering/literals.h"

namespace trireme::layering {
namespace {

int line_of(const std::string& text, std::ptrdiff_t at) {
  return 1 + static_cast<int>(std::count(text.begin(), text.begin() + at, '\n'));
}

/// A switch whose block is open.
struct Switch {
  int depth;  // of its block
  bool has_enumerators;
  std::ptrdiff_t default_at;  // -1: none
};

}  // namespace

std::vector<int> lines_of_defaults(const std::string& text) {
  static const std::regex word(
      R"(\{|\}|\bswitch\b|\bdefault\s*:(?!:)|\bcase\s+(?:\w+::)*(\w+)\s*:(?!:))");
  const std::string code = code_of(text);
  std::vector<Switch> open;
  std::vector<int> lines;
  int depth = 0;
  bool begins = false;  // a switch, before its block
  for (std::sregex_iterator i(code.begin(), code.end(), word), end; i != end; ++i) {
    const std::string found = i->str();
    if (found == "switch") {
      begins = true;
    } else if (found == "{") {
      ++depth;
      if (begins) open.push_back({depth, false, -1});
      begins = false;
    } else if (found == "}") {
      if (!open.empty() && open.back().depth == depth) {
        if (open.back().has_enumerators && open.back().default_at >= 0)
          lines.push_back(line_of(code, open.back().default_at));
        open.pop_back();
      }
      --depth;
    } else if (!open.empty() && found[0] == 'd') {
      open.back().default_at = i->position();
    } else if (!open.empty()) {
      open.back().has_enumerators |= found.find("::") != std::string::npos;
    }
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

std::vector<int> lines_of_comparisons(const std::string& text, const std::string& kind) {
  const std::regex comparison(fmt::format(R"([=!]=\s*(?:\w+::)*{}::\w)", kind));
  const std::string code = code_of(text);
  std::vector<int> lines;
  for (std::sregex_iterator i(code.begin(), code.end(), comparison), end; i != end; ++i)
    lines.push_back(line_of(code, i->position()));
  return lines;
}

}  // namespace trireme::layering
