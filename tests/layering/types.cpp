#include "tests/layering/types.h"

#include <algorithm>
#include <cctype>
#include <set>

namespace trireme::layering {
namespace {

struct Token {
  std::string text;  // an identifier or number, "::", or one other character
  int line;
};
using Tokens = std::vector<Token>;

bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// Splits C++ into tokens, without comments, literals of text and preprocessor lines.
class Lexer {
 public:
  explicit Lexer(const std::string& text) : text_(text) {
    while (at_ < text_.size()) step();
  }
  Tokens tokens() const { return tokens_; }

 private:
  bool sees(const char* word) const {
    return text_.compare(at_, std::string(word).size(), word) == 0;
  }
  /// Moves behind the next `end` from `from` on.
  void skip_behind(const std::string& end, std::size_t from) {
    const std::size_t found = text_.find(end, from);
    const std::size_t next = found == std::string::npos ? text_.size() : found + end.size();
    line_ += static_cast<int>(std::count(text_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         text_.begin() + static_cast<std::ptrdiff_t>(next), '\n'));
    at_ = next;
  }
  void skip_literal(char quote) {
    for (++at_; at_ < text_.size() && text_[at_] != quote; ++at_)
      if (text_[at_] == '\\') ++at_;
    ++at_;
  }
  void skip_preprocessor_line() {
    for (; at_ < text_.size() && text_[at_] != '\n'; ++at_)
      if (sees("\\\n")) ++at_, ++line_;
  }
  void take(std::size_t size) {
    tokens_.push_back({text_.substr(at_, size), line_});
    at_ += size;
  }

  void step() {
    const char c = text_[at_];
    if (c == '\n') {
      ++line_, ++at_, line_begins_ = true;
      return;
    }
    if (c == ' ' || c == '\t') return void(++at_);
    if (c == '#' && line_begins_) return skip_preprocessor_line();
    line_begins_ = false;
    if (sees("//")) return void(at_ = std::min(text_.find('\n', at_), text_.size()));
    if (sees("/*")) return skip_behind("*/", at_ + 2);
    if (sees("R\"")) {
      const std::size_t open = std::min(text_.find('(', at_), text_.size());
      std::string end = text_.substr(at_ + 1, open - at_ - 1);  // R"end( … )end"
      end[0] = ')';
      return skip_behind(end + '"', open);
    }
    if (c == '"' || c == '\'') return skip_literal(c);
    if (sees("::")) return take(2);
    std::size_t size = 1;  // 1'000 is one number
    const bool number = std::isdigit(static_cast<unsigned char>(c)) != 0;
    if (in_word(c))
      while (at_ + size < text_.size() &&
             (in_word(text_[at_ + size]) || (number && text_[at_ + size] == '\'')))
        ++size;
    take(size);
  }

  const std::string& text_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool line_begins_ = true;
  Tokens tokens_;
};

/// What precedes a `{`, from the end of the statement before.
class Head {
 public:
  explicit Head(const Tokens& tokens) : tokens_(tokens) {
    static const std::set<std::string> before = {"inline", "static",  "constexpr", "const",
                                                 "extern", "typedef", "template"};
    while (skip_attribute() || before.contains(text())) {
      const bool parameters = text() == "template" && text(1) == "<";
      if (before.contains(text())) ++at_;
      if (parameters) skip_balanced("<", ">");
    }
  }

  /// extern "C" {
  bool only_extern() const { return tokens_.size() == 1 && tokens_[0].text == "extern"; }
  bool is_namespace() const { return text() == "namespace"; }
  std::string namespace_name() {
    std::string all;
    for (++at_; at_ < tokens_.size(); ++at_)
      if (text() != "inline") all += text();
    return all;
  }
  /// What a statement adds to the namespace around it; empty when that is nothing.
  std::string declared_name(bool has_body) {
    static const std::set<std::string> skipped = {"", ",", ")", "static_assert", "namespace"};
    static const std::set<std::string> keys = {"struct", "class", "union", "enum"};
    if (skipped.contains(text()) || (text() == "using" && text(1) == "namespace")) return "";
    if (only_extern()) return "";
    if (keys.contains(text())) {
      const std::size_t begin = at_;
      const std::string type = type_name();
      const bool other = type.find_first_of(":<") != std::string::npos;
      if (!type.empty()) return has_body && !other ? type : "";
      at_ = begin;  // a function that returns one, or a variable
    }
    static const std::set<std::string> behind_name = {"(", "=", "["};
    std::string name, before;
    for (int angles = 0; at_ < tokens_.size(); ++at_) {
      const std::string behind = at_ > 0 ? tokens_[at_ - 1].text : "";
      if (text() == "operator") return behind == "::" ? "" : "operator";
      angles += text() == "<" ? 1 : text() == ">" ? -1 : 0;
      if (angles > 0 || text() == ">") continue;
      if (behind_name.contains(text())) break;
      if (!in_word(text()[0])) continue;
      name = text();
      before = behind;
    }
    return before == "::" ? "" : name;
  }
  /// Of a type; empty when it is something else, or has no name.
  std::string type_name() {
    static const std::set<std::string> keys = {"struct", "class", "union", "enum"};
    if (!keys.contains(text())) return "";
    while (keys.contains(text())) ++at_;
    while (skip_attribute()) {
    }
    std::string all;
    while (at_ < tokens_.size() && text() != ":" && text() != "final") {
      const std::size_t begin = at_;
      if (text() == "<")
        skip_balanced("<", ">");
      else if (text() == "::" || in_word(text()[0]))
        ++at_;
      else
        return "";  // a function that returns one, or a variable
      for (std::size_t i = begin; i < at_; ++i) all += tokens_[i].text;
    }
    return all;
  }

 private:
  std::string text(std::size_t ahead = 0) const {
    return at_ + ahead < tokens_.size() ? tokens_[at_ + ahead].text : "";
  }
  void skip_balanced(const std::string& open, const std::string& close) {
    int depth = 0;
    do {
      depth += text() == open ? 1 : text() == close ? -1 : 0;
      ++at_;
    } while (depth > 0 && at_ < tokens_.size());
  }
  bool skip_attribute() {
    if (text() == "[" && text(1) == "[") {
      skip_balanced("[", "]");
      return true;
    }
    if (text() != "alignas" && text() != "__align__" && text() != "__attribute__") return false;
    ++at_;
    skip_balanced("(", ")");
    return true;
  }

  const Tokens& tokens_;
  std::size_t at_ = 0;
};

/// A pair of braces that is open.
struct Scope {
  bool visible;      // types in it are visible to other files
  std::string path;  // "trireme::comm::"
};

Scope scope_of(const Tokens& before, const Scope& around, std::vector<DeclaredName>& types) {
  Head head(before);
  if (head.only_extern()) return around;
  if (head.is_namespace()) {
    const std::string name = head.namespace_name();
    return {around.visible && !name.empty(), around.path + name + "::"};
  }
  const std::string name = head.type_name();
  if (name.empty() || !around.visible) return {false, ""};
  types.push_back({around.path + name, before.back().line});
  return {true, around.path + name + "::"};
}

/// Calls at_end(statement, scope, has_body) at the end of each statement: at `;`, or at the `{` of
/// its body. Adds the types to `types`.
template <class AtEnd>
void for_each_statement(const std::string& text, std::vector<DeclaredName>& types, AtEnd at_end) {
  std::vector<Scope> open{{true, ""}};
  Tokens statement;
  for (const Token& token : Lexer(text).tokens()) {
    if (token.text == "{" || token.text == ";") at_end(statement, open.back(), token.text == "{");
    if (token.text == "{") open.push_back(scope_of(statement, open.back(), types));
    if (token.text == "}" && open.size() > 1) open.pop_back();
    const bool access = token.text == ":" && statement.size() == 1 &&
                        (statement[0].text == "public" || statement[0].text == "protected" ||
                         statement[0].text == "private");
    if (token.text == "{" || token.text == "}" || token.text == ";" || access)
      statement.clear();
    else
      statement.push_back(token);
  }
}

}  // namespace

std::vector<DeclaredName> types_of(const std::string& text) {
  std::vector<DeclaredName> types;
  for_each_statement(text, types, [](const Tokens&, const Scope&, bool) {});
  return types;
}

std::vector<DeclaredName> names_in_trireme(const std::string& text) {
  std::vector<DeclaredName> types, names;
  for_each_statement(text, types, [&](const Tokens& statement, const Scope& scope, bool has_body) {
    if (!scope.visible || scope.path != "trireme::") return;
    if (const std::string name = Head(statement).declared_name(has_body); !name.empty())
      names.push_back({name, statement.back().line});
  });
  return names;
}

}  // namespace trireme::layering
