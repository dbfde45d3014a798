#include "tests/layering/comments.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <sstream>
#include <string_view>

namespace trireme::layering {
namespace {

/// Whether `text` begins with the whole word or words `begin`.
bool begins_with(std::string_view text, std::string_view begin) {
  return text.starts_with(begin) &&
         (text.size() == begin.size() ||
          std::isalnum(static_cast<unsigned char>(text[begin.size()])) == 0);
}

bool is_fragment(std::string_view comment) {
  constexpr std::array<std::string_view, 3> begins = {"Of", "As", "The same"};
  return std::any_of(begins.begin(), begins.end(),
                     [&](std::string_view begin) { return begins_with(comment, begin); });
}

}  // namespace

std::vector<int> lines_of_fragments(const std::string& text) {
  std::vector<int> lines;
  std::istringstream in(text);
  bool in_comment = false;
  int number = 1;
  for (std::string line; std::getline(in, line); ++number) {
    const std::size_t slashes = line.find("//"), code = line.find_first_not_of(' ');
    const bool is_comment = slashes != std::string::npos && slashes == code;
    if (slashes != std::string::npos) {
      const std::size_t words = std::min(line.find_first_not_of("/ ", slashes), line.size());
      const std::string_view comment = std::string_view(line).substr(words);
      if (is_comment ? !in_comment && is_fragment(comment) : begins_with(comment, "of"))
        lines.push_back(number);
    }
    in_comment = is_comment;
  }
  return lines;
}

}  // namespace trireme::layering
