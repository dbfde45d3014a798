#include "tests/layering/literals.h"

#include <algorithm>
#include <cctype>
#include <regex>

#include <fmt/core.h>

namespace trireme::layering {
namespace {

bool at(const std::string& text, std::size_t i, const char* word) {
  return text.compare(i, std::char_traits<char>::length(word), word) == 0;
}

std::size_t behind(const std::string& text, std::size_t i, const std::string& end) {
  const std::size_t found = text.find(end, i);
  return found == std::string::npos ? text.size() : found + end.size();
}

/// The end of a quoted word that begins at `i`: behind the quote that closes it.
std::size_t end_of_quoted(const std::string& text, std::size_t i) {
  const char quote = text[i++];
  for (; i < text.size() && text[i] != quote && text[i] != '\n'; ++i)
    if (text[i] == '\\') ++i;
  return std::min(i + 1, text.size());
}

/// A comment, an #include, something in quotes, or one character of code.
struct Piece {
  enum class Kind { code, text, other } kind;
  std::size_t end;                    // behind it
  std::size_t begin = 0, length = 0;  // of a text, without the quotes
};

Piece piece_at(const std::string& text, std::size_t i) {
  using Kind = Piece::Kind;
  const bool new_line = i == 0 || text[i - 1] == '\n';
  if (at(text, i, "//") || (new_line && at(text, i, "#include")))
    return {Kind::other, std::min(text.find('\n', i), text.size())};
  if (at(text, i, "/*")) return {Kind::other, behind(text, i, "*/")};
  if (at(text, i, "R\"")) {
    const std::size_t open = text.find('(', i);
    const std::string close = fmt::format("){}\"", text.substr(i + 2, open - i - 2));
    const std::size_t end = behind(text, open, close);
    return {Kind::text, end, open + 1, end - close.size() - open - 1};
  }
  const bool separator =  // 1'000
      i > 0 && std::isalnum(static_cast<unsigned char>(text[i - 1])) != 0;
  if (text[i] == '\'' && !separator) return {Kind::other, end_of_quoted(text, i)};
  if (text[i] != '"') return {Kind::code, i + 1};
  const std::size_t end = end_of_quoted(text, i);
  return {Kind::text, end, i + 1, end - i - 2};
}

}  // namespace

std::vector<Literal> literals_of(const std::string& text) {
  std::vector<Literal> all;
  int line = 1;
  for (std::size_t i = 0; i < text.size();) {
    const Piece piece = piece_at(text, i);
    if (piece.kind == Piece::Kind::text)
      all.push_back({text.substr(piece.begin, piece.length), line});
    for (; i < piece.end; ++i) line += text[i] == '\n' ? 1 : 0;
  }
  return all;
}

std::string code_of(const std::string& text) {
  std::string code = text;
  for (std::size_t i = 0; i < text.size();) {
    const Piece piece = piece_at(text, i);
    for (; i < piece.end; ++i)
      if (piece.kind != Piece::Kind::code && text[i] != '\n') code[i] = ' ';
  }
  return code;
}

Skeleton skeleton_of(const std::string& text,
                     const std::function<bool(const std::string&)>& keeps) {
  Skeleton all;
  int line = 1;
  const auto add = [&](const std::string& more) {
    all.text += more;
    all.lines.insert(all.lines.end(), more.size(), line);
  };
  for (std::size_t i = 0; i < text.size();) {
    const Piece piece = piece_at(text, i);
    const std::string literal = text.substr(piece.begin, piece.length);
    if (piece.kind == Piece::Kind::text)
      add(keeps(literal) ? '"' + literal + '"' : "\"\"");
    else if (piece.kind == Piece::Kind::code &&
             std::isspace(static_cast<unsigned char>(text[i])) == 0)
      add({text[i]});
    for (; i < piece.end; ++i) line += text[i] == '\n' ? 1 : 0;
  }
  return all;
}

std::vector<std::string> options_in(const std::string& text) {
  static const std::regex option("(^|[^A-Za-z0-9-])(--[a-z][a-z0-9-]*)");
  std::vector<std::string> all;
  for (std::sregex_iterator i(text.begin(), text.end(), option), end; i != end; ++i)
    all.push_back((*i)[2]);
  return all;
}

}  // namespace trireme::layering
