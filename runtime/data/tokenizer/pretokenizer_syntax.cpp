// What PCRE2 and Oniguruma understand alike.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "trireme/core/error.h"

#include "runtime/data/tokenizer/pretokenizer_pattern.h"
#include "runtime/data/unicode/unicode_versions.h"
#include "runtime/data/unicode/utf8.h"

namespace trireme::data {
namespace {

constexpr std::array<std::string_view, 37> categories = {
    "L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc", "Me", "N",  "Nd", "Nl",
    "No", "P",  "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "S",  "Sm", "Sc", "Sk",
    "So", "Z",  "Zs", "Zl", "Zp", "C",  "Cc", "Cf", "Co", "Cn", "Cs"};
constexpr std::array<std::string_view, 7> groups = {"(?:",  "(?i:", "(?=", "(?!",
                                                    "(?<=", "(?<!", "(?>"};

/// Letters that are one character in another case, to Oniguruma alone; and that character.
constexpr std::array<std::array<const char*, 2>, 5> folded_pairs = {
    {{"ss", "U+00DF"}, {"ff", "U+FB00"}, {"fi", "U+FB01"}, {"fl", "U+FB02"}, {"st", "U+FB06"}}};

bool is_digit(char c) { return '0' <= c && c <= '9'; }
bool is_letter_or_digit(char c) {
  return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || is_digit(c);
}
char lower(char c) { return 'A' <= c && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

class Syntax {
 public:
  explicit Syntax(std::string_view pattern) : rest_(pattern) {}

  std::string problem() {
    while (!rest_.empty() && wrong_.empty()) {
      if (caseless() && !is_ascii(rest_.front()))
        refuse_caseless(character_bytes(rest_.front()));
      else if (rest_.front() == '\\')
        read_escape();
      else if (in_class_)
        read_in_class();
      else
        read_outside();
    }
    return wrong_;
  }

 private:
  static bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }
  /// Whether letters here match other cases too.
  bool caseless() const { return caseless_.back(); }
  void take(std::size_t count) { rest_.remove_prefix(std::min(count, rest_.size())); }
  void refuse(std::size_t count, const std::string& why = "") {
    wrong_ = str(rest_.substr(0, count), " is not understood", why);
  }

  void refuse_caseless(std::size_t count) {
    wrong_ = str(rest_.substr(0, count),
                 " in (?i: is not understood, since Oniguruma knows other cases of characters");
  }

  void read_escape() {
    letter_ = '\0';
    const char kind = rest_.size() > 1 ? rest_[1] : '\0';
    const std::size_t close = rest_.find('}');
    const bool braced = rest_.size() > 2 && rest_[2] == '{' && close != rest_.npos;
    if (kind == 'p' || kind == 'P') {
      const auto name = braced ? rest_.substr(3, close - 3) : std::string_view();
      if (std::find(categories.begin(), categories.end(), name) == categories.end())
        return refuse(braced ? close + 1 : 3);
      return caseless() ? refuse_caseless(close + 1) : take(close + 1);
    }
    if (kind == 'x' && braced) return caseless() ? refuse_caseless(close + 1) : take(close + 1);
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
    if (rest_.front() == '(') return read_group();
    for (std::string_view different : {"^", "$", "}+", "{,"})
      if (rest_.starts_with(different)) return refuse(different.size());
    switch (rest_.front()) {
      case ')':
        if (caseless_.size() > 1) caseless_.pop_back();
        return take(1);
      case '{':
        return read_repetition();
      case '[':
        return read_class();
      default:
        return read_character();
    }
  }

  void read_group() {
    if (!rest_.starts_with("(?") && !rest_.starts_with("(*")) {
      caseless_.push_back(caseless());
      return take(1);
    }
    for (std::string_view group : groups)
      if (rest_.starts_with(group)) {
        caseless_.push_back(caseless() || group == "(?i:");
        return take(group.size());
      }
    refuse(3);
  }

  void read_repetition() {
    std::size_t end = 1;
    while (end < rest_.size() && is_digit(rest_[end])) ++end;
    if (end > 1 && rest_.substr(end).starts_with("}?"))
      return refuse(end + 2, ", since to Oniguruma ? makes all of it optional");
    take(end);
  }

  void read_class() {
    letter_ = '\0';
    in_class_ = true;
    take(rest_.starts_with("[^") ? 2 : 1);
    if (rest_.starts_with("]")) refuse(1);
  }

  /// Oniguruma joins letters before it looks for folded ones, through groups and {1} too.
  void read_character() {
    const char c = rest_.front();
    if (std::string_view("*+?}").find(c) != std::string_view::npos) return take(1);
    const std::string pair = {letter_, lower(c)};
    letter_ = caseless() ? lower(c) : '\0';
    for (const auto& [letters, one] : folded_pairs)
      if (caseless() && pair == letters)
        wrong_ = pair + " in (?i: is not understood, since to Oniguruma it is " + one + " as well";
    take(1);
  }

  std::string_view rest_;
  std::string wrong_;
  std::vector<bool> caseless_ = {false};  // the groups around this place, the outermost first
  char letter_ = '\0';                    // the caseless one before this place, in lower case
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
