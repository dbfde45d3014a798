#include "tests/layering/literals.h"

#include <algorithm>
#include <cctype>
#include <regex>

namespace trireme::layering {
namespace {

bool at(const std::string& text, std::size_t i, const char* word) {
  return text.compare(i, std::char_traits<char>::length(word), word) == 0;
}

/// The end of a quoted word that begins at `i`: behind the quote that closes it.
std::size_t end_of_quoted(const std::string& text, std::size_t i) {
  const char quote = text[i++];
  for (; i < text.size() && text[i] != quote && text[i] != '\n'; ++i)
    if (text[i] == '\\') ++i;
  return std::min(i + 1, text.size());
}

std::size_t behind(const std::string& text, std::size_t i, const std::string& end) {
  const std::size_t found = text.find(end, i);
  return found == std::string::npos ? text.size() : found + end.size();
}

}  // namespace

std::vector<Literal> literals_of(const std::string& text) {
  std::vector<Literal> all;
  int line = 1;
  bool new_line = true;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i + 1;
    if (at(text, i, "//") || (new_line && at(text, i, "#include"))) {
      end = text.find('\n', i);
      if (end == std::string::npos) end = text.size();
    } else if (at(text, i, "/*")) {
      end = behind(text, i, "*/");
    } else if (at(text, i, "R\"")) {
      const std::size_t open = text.find('(', i);
      const std::string close = ")" + text.substr(i + 2, open - i - 2) + "\"";
      end = behind(text, open, close);
      all.push_back({text.substr(open + 1, end - close.size() - open - 1), line});
    } else if (text[i] == '"' ||
               (text[i] == '\'' &&
                (i == 0 || std::isalnum(static_cast<unsigned char>(text[i - 1])) == 0))) {
      end = end_of_quoted(text, i);
      if (text[i] == '"') all.push_back({text.substr(i + 1, end - i - 2), line});
    }
    for (; i < end; ++i) {
      if (text[i] == '\n') ++line;
      new_line = text[i] == '\n';
    }
  }
  return all;
}

std::string option_in(const std::string& text) {
  static const std::regex option("(^|[^A-Za-z0-9-])(--[a-z][a-z0-9-]*)");
  std::smatch found;
  return std::regex_search(text, found, option) ? found[2].str() : "";
}

std::vector<std::string> members_in(const std::string& text) {
  static const std::regex member("[A-Z][A-Za-z0-9]*::[a-z][a-z0-9_]*");
  std::vector<std::string> all;
  for (std::sregex_iterator i(text.begin(), text.end(), member), end; i != end; ++i)
    all.push_back(i->str());
  return all;
}

}  // namespace trireme::layering
