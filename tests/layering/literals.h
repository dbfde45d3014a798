// String literals of a source file, found in its text alone.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace trireme::layering {

struct Literal {
  std::string text;  // as it is written, without the quotes
  int line;
  bool operator==(const Literal&) const = default;
};

/// In the order of the text; what comments hold is none, and neither are the names of #include.
std::vector<Literal> literals_of(const std::string& text);

/// `text` with spaces in place of its comments, names of #include, and what is in quotes.
std::string code_of(const std::string& text);

struct Skeleton {
  std::string text;
  std::vector<int> lines;  // of each character
};
/// `text` without its comments, names of #include, spaces, and what is in literals but for those
/// that `keeps` holds of.
Skeleton skeleton_of(const std::string& text,
                     const std::function<bool(const std::string& literal)>& keeps);

/// Options that a text names: "--hidden-size" and "--tp" in "use --hidden-size 8 or --tp".
std::vector<std::string> options_in(const std::string& text);

}  // namespace trireme::layering
