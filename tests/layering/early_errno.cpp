#include "tests/layering/early_errno.h"

#include <algorithm>
#include <regex>

#include "tests/layering/literals.h"

namespace trireme::layering {
namespace {

/// The arguments of a call; `i` is behind its opening parenthesis.
std::string arguments_at(const std::string& code, std::size_t i) {
  const std::size_t begin = i;
  for (int depth = 1; i < code.size(); ++i) {
    if (code[i] == '(') ++depth;
    if (code[i] == ')' && --depth == 0) break;
  }
  return code.substr(begin, i - begin);
}

}  // namespace

std::vector<int> lines_of_early_errno(const std::string& text) {
  static const std::regex call(R"(\brequire\()"), reads(R"(\berrno\b)");
  std::vector<int> lines;
  if (text.find("errno") == std::string::npos) return lines;
  const std::string code = code_of(text);
  for (std::sregex_iterator found(code.begin(), code.end(), call), end; found != end; ++found) {
    const auto behind = found->position() + found->length();
    if (!std::regex_search(arguments_at(code, static_cast<std::size_t>(behind)), reads)) continue;
    lines.push_back(static_cast<int>(std::count(code.begin(), code.begin() + behind, '\n')) + 1);
  }
  return lines;
}

}  // namespace trireme::layering
