// What PCRE2 and Oniguruma understand alike.
#include <algorithm>
#include <array>

#include "trireme/core/error.h"

#include "runtime/data/tokenizer/pretokenizer_pattern.h"
#include "runtime/data/unicode/unicode_versions.h"

namespace trireme::data {
namespace {

constexpr std::array<std::string_view, 37> categories = {
    "L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc", "Me", "N",  "Nd", "Nl",
    "No", "P",  "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "S",  "Sm", "Sc", "Sk",
    "So", "Z",  "Zs", "Zl", "Zp", "C",  "Cc", "Cf", "Co", "Cn", "Cs"};
constexpr std::array<std::string_view, 7> groups = {"(?:",  "(?i:", "(?=", "(?!",
                                                    "(?<=", "(?<!", "(?>"};

bool is_letter_or_digit(char c) {
  return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9');
}

class Syntax {
 public:
  explicit Syntax(std::string_view pattern) : rest_(pattern) {}

  std::string problem() {
    while (!rest_.empty() && wrong_.empty()) {
      if (rest_.front() == '\\')
        read_escape();
      else if (in_class_)
        read_in_class();
      else
        read_outside();
    }
    return wrong_.empty() ? "" : wrong_ + " is not understood";
  }

 private:
  void take(std::size_t count) { rest_.remove_prefix(std::min(count, rest_.size())); }
  void refuse(std::size_t count) { wrong_ = rest_.substr(0, count); }

  void read_escape() {
    const char kind = rest_.size() > 1 ? rest_[1] : '\0';
    const std::size_t close = rest_.find('}');
    const bool braced = rest_.size() > 2 && rest_[2] == '{' && close != rest_.npos;
    if (kind == 'p' || kind == 'P') {
      const auto name = braced ? rest_.substr(3, close - 3) : std::string_view();
      if (std::find(categories.begin(), categories.end(), name) == categories.end())
        return refuse(braced ? close + 1 : 3);
      return take(close + 1);
    }
    if (kind == 'x' && braced) return take(close + 1);
    const bool same = std::string_view("sSdDnrtf").find(kind) != std::string_view::npos ||
                      (!is_letter_or_digit(kind) && kind > ' ');
    same ? take(2) : refuse(2);
  }

  void read_in_class() {
    if (rest_.front() == '[') return refuse(2);
    if (rest_.starts_with("&&")) return refuse(2);
    if (rest_.front() == ']') in_class_ = false;
    take(1);
  }

  void read_outside() {
    if (rest_.starts_with("(?") || rest_.starts_with("(*")) {
      for (std::string_view group : groups)
        if (rest_.starts_with(group)) return take(group.size());
      return refuse(3);
    }
    for (std::string_view different : {"^", "$", "}+", "{,"})
      if (rest_.starts_with(different)) return refuse(different.size());
    if (rest_.front() != '[') return take(1);
    in_class_ = true;
    take(rest_.starts_with("[^") ? 2 : 1);
    if (rest_.starts_with("]")) refuse(1);
  }

  std::string_view rest_;
  std::string wrong_;
  bool in_class_ = false;
};

}  // namespace

std::string problem_of_pattern(const std::string& pattern) {
  constexpr std::size_t longest = 10'000;
  if (pattern.size() > longest) return str("has ", pattern.size(), " bytes, more than ", longest);
  if (std::string problem = Syntax(pattern).problem(); !problem.empty()) return problem;
  std::string stand_in;
  if (with_known_characters(pattern, stand_in) != pattern)
    return "a character of it is newer than Unicode 14";
  try {
    const Pattern compiled(pattern);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

std::string escaped_pattern(std::string_view text) {
  std::string pattern;
  for (char c : text) {
    const bool special = static_cast<unsigned char>(c) < 0x80 && !is_letter_or_digit(c) && c > ' ';
    if (special) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

}  // namespace trireme::data
