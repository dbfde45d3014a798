// Patterns of Oniguruma in the syntax of PCRE2.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "trireme/core/error.h"

#include "runtime/data/tokenizer/pretokenizer_pattern.h"
#include "runtime/data/unicode/utf8.h"

namespace trireme::data {
namespace {

constexpr std::array<std::string_view, 37> categories = {
    "L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc", "Me", "N",  "Nd", "Nl",
    "No", "P",  "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "S",  "Sm", "Sc", "Sk",
    "So", "Z",  "Zs", "Zl", "Zp", "C",  "Cc", "Cf", "Co", "Cn", "Cs"};

struct Name {
  std::string_view here, there;  // to Oniguruma, to PCRE2
};
constexpr std::array<Name, 8> groups = {{{"(?:", "(?:"},
                                         {"(?i:", "(?i:"},
                                         {"(?m:", "(?s:"},
                                         {"(?=", "(?="},
                                         {"(?!", "(?!"},
                                         {"(?<=", "(?<="},
                                         {"(?<!", "(?<!"},
                                         {"(?>", "(?>"}}};
/// Of Unicode 16; versions of PCRE2 differ in what a script is.
constexpr std::array<Name, 4> scripts = {
    {{"Han",
      "\\x{2E80}-\\x{2E99}\\x{2E9B}-\\x{2EF3}\\x{2F00}-\\x{2FD5}\\x{3005}\\x{3007}"
      "\\x{3021}-\\x{3029}\\x{3038}-\\x{303B}\\x{3400}-\\x{4DBF}\\x{4E00}-\\x{9FFF}"
      "\\x{F900}-\\x{FA6D}\\x{FA70}-\\x{FAD9}\\x{16FE2}\\x{16FE3}\\x{16FF0}\\x{16FF1}"
      "\\x{20000}-\\x{2A6DF}\\x{2A700}-\\x{2B739}\\x{2B740}-\\x{2B81D}\\x{2B820}-\\x{2CEA1}"
      "\\x{2CEB0}-\\x{2EBE0}\\x{2EBF0}-\\x{2EE5D}\\x{2F800}-\\x{2FA1D}\\x{30000}-\\x{3134A}"
      "\\x{31350}-\\x{323AF}"},
     {"Hiragana",
      "\\x{3041}-\\x{3096}\\x{309D}-\\x{309F}\\x{1B001}-\\x{1B11F}\\x{1B132}\\x{1B150}-\\x{1B152}"
      "\\x{1F200}"},
     {"Katakana",
      "\\x{30A1}-\\x{30FA}\\x{30FD}-\\x{30FF}\\x{31F0}-\\x{31FF}\\x{32D0}-\\x{32FE}"
      "\\x{3300}-\\x{3357}\\x{FF66}-\\x{FF6F}\\x{FF71}-\\x{FF9D}\\x{1AFF0}-\\x{1AFF3}"
      "\\x{1AFF5}-\\x{1AFFB}\\x{1AFFD}\\x{1AFFE}\\x{1B000}\\x{1B120}-\\x{1B122}\\x{1B155}"
      "\\x{1B164}-\\x{1B167}"},
     {"Hangul",
      "\\x{1100}-\\x{11FF}\\x{302E}\\x{302F}\\x{3131}-\\x{318E}\\x{3200}-\\x{321E}"
      "\\x{3260}-\\x{327E}\\x{A960}-\\x{A97C}\\x{AC00}-\\x{D7A3}\\x{D7B0}-\\x{D7C6}"
      "\\x{D7CB}-\\x{D7FB}\\x{FFA0}-\\x{FFBE}\\x{FFC2}-\\x{FFC7}\\x{FFCA}-\\x{FFCF}"
      "\\x{FFD2}-\\x{FFD7}\\x{FFDA}-\\x{FFDC}"}}};
/// \w: letters, marks, digits and what joins words; below U+0100 other numerals too.
constexpr const char* word =
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{B2}\\x{B3}\\x{B9}\\x{BC}-\\x{BE}\\x{24B6}-\\x{24E9}"
    "\\x{1F130}-\\x{1F149}\\x{1F150}-\\x{1F169}\\x{1F170}-\\x{1F189}";

/// Letters that are one character in another case, to Oniguruma alone; and that character.
constexpr std::array<std::array<const char*, 2>, 5> folded_pairs = {
    {{"ss", "U+00DF"}, {"ff", "U+FB00"}, {"fi", "U+FB01"}, {"fl", "U+FB02"}, {"st", "U+FB06"}}};

bool is_digit(char c) { return '0' <= c && c <= '9'; }
bool is_letter_or_digit(char c) {
  return ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || is_digit(c);
}
bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }
char lower(char c) { return 'A' <= c && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

/// A backslash and what belongs to it.
struct Escape {
  enum class Kind { character, members, assertion } kind = Kind::character;
  std::string text;  // of members: what stands between [ and ]
  bool negated = false;
};

/// What stands between two && of a class: members of a class of PCRE2, and classes beside them.
struct Members {
  std::string text;
  std::vector<std::string> classes;

  bool is_simple() const { return classes.empty(); }
  std::string matcher() const {
    if (is_simple()) return "[" + text + "]";
    std::string all = text.empty() ? "" : "[" + text + "]";
    for (const std::string& one : classes) all += (all.empty() ? "" : "|") + one;
    return "(?:" + all + ")";
  }
};
struct Class {
  bool negated = false;
  std::vector<Members> all;  // a character is in each of them

  std::string matcher() const {
    if (negated && all.size() == 1 && all[0].is_simple()) return "[^" + all[0].text + "]";
    std::string both;
    for (std::size_t i = 0; i + 1 < all.size(); ++i) both += "(?=" + all[i].matcher() + ")";
    both += all.back().matcher();
    return negated ? "(?:(?!" + both + ")(?s:.))" : all.size() == 1 ? both : "(?:" + both + ")";
  }
};

class Translator {
 public:
  explicit Translator(std::string_view pattern) : rest_(pattern) {}

  PatternText translate() {
    while (!rest_.empty()) {
      refuse_other_cases();
      if (rest_.front() == '\\')
        add_escape();
      else if (rest_.front() == '[')
        letter_ = '\0', out_.text += read_class().matcher();
      else
        read_outside();
    }
    return std::move(out_);
  }

 private:
  /// Whether letters here match other cases too.
  bool caseless() const { return caseless_.back(); }
  void take(std::size_t count) { rest_.remove_prefix(std::min(count, rest_.size())); }
  bool took(std::string_view text) {
    const bool there = rest_.starts_with(text);
    if (there) take(text.size());
    return there;
  }
  void keep(std::size_t count) {
    out_.text += rest_.substr(0, count);
    take(count);
  }
  [[noreturn]] void refuse(std::size_t count, const std::string& why = "") const {
    throw Error(str(rest_.substr(0, count), " is not understood", why));
  }
  [[noreturn]] void refuse_caseless(std::size_t count) const {
    throw Error(str(rest_.substr(0, count), " in (?i: is not understood, ",
                    "since Oniguruma knows other cases of characters"));
  }
  void refuse_other_cases() const {
    if (caseless() && !is_ascii(rest_.front())) refuse_caseless(character_bytes(rest_.front()));
  }

  void add_escape() {
    letter_ = '\0';
    const Escape escape = read_escape();
    const bool members = escape.kind == Escape::Kind::members;
    out_.text += members ? (escape.negated ? "[^" : "[") + escape.text + "]" : escape.text;
  }

  Escape read_escape() {
    using Kind = Escape::Kind;
    const char kind = rest_.size() > 1 ? rest_[1] : '\0';
    if (kind == 'p' || kind == 'P') return read_property(kind == 'P');
    if (kind == 'x' || kind == 'u') return read_number(kind);
    const auto is_one_of = [&](const char* kinds) {
      return std::string_view(kinds).find(kind) != std::string_view::npos;
    };
    if (is_one_of("wWbB") && caseless()) refuse_caseless(2);
    if (is_one_of("sSdDwWbB")) out_.sees_categories = true;
    const std::string text(rest_.substr(0, 2)), in = str("[", word, "]");
    Escape escape{Kind::character, text};
    if (is_one_of("wW"))
      escape = {Kind::members, word, kind == 'W'};
    else if (is_one_of("hH"))
      escape = {Kind::members, "0-9A-Fa-f", kind == 'H'};
    else if (kind == 'b')
      escape = {Kind::assertion, str("(?:(?<=", in, ")(?!", in, ")|(?<!", in, ")(?=", in, "))")};
    else if (kind == 'B')
      escape = {Kind::assertion, str("(?:(?<=", in, ")(?=", in, ")|(?<!", in, ")(?!", in, "))")};
    else if (is_one_of("AzZ"))
      escape.kind = Kind::assertion;
    else if (kind == 'v')
      escape.text = "\\x{B}";
    else if (!is_one_of("sSdDnrtfae") && (is_letter_or_digit(kind) || kind <= ' '))
      refuse(2);
    take(2);
    return escape;
  }

  Escape read_property(bool negated) {
    const std::size_t close = rest_.find('}');
    const bool braced = rest_.size() > 2 && rest_[2] == '{' && close != rest_.npos;
    if (!braced) refuse(3);
    const std::string_view name = rest_.substr(3, close - 3), all = rest_.substr(0, close + 1);
    const auto script = std::find_if(scripts.begin(), scripts.end(),
                                     [&](const Name& one) { return one.here == name; });
    const bool category = std::find(categories.begin(), categories.end(), name) != categories.end();
    if (!category && script == scripts.end()) refuse(close + 1);
    if (caseless()) refuse_caseless(close + 1);
    if (category) out_.sees_categories = true;
    take(close + 1);
    if (category) return {Escape::Kind::character, std::string(all)};
    return {Escape::Kind::members, std::string(script->there), negated};
  }

  /// \x{H…}, \xHH below 80, \uHHHH.
  Escape read_number(char kind) {
    const std::size_t close = rest_.find('}');
    const bool braced = kind == 'x' && rest_.size() > 2 && rest_[2] == '{' && close != rest_.npos;
    const std::size_t end = braced ? close + 1 : kind == 'x' ? 4 : 6;
    const std::string_view digits = braced ? rest_.substr(3, close - 3) : rest_.substr(2, end - 2);
    const bool right = rest_.size() >= end && !digits.empty() &&
                       digits.find_first_not_of("0123456789abcdefABCDEF") == digits.npos;
    if (!right || (kind == 'x' && !braced && digits[0] > '7')) refuse(std::min(end, rest_.size()));
    if (caseless()) refuse_caseless(end);
    take(end);
    return {Escape::Kind::character, str("\\x{", digits, "}")};
  }

  Class read_class() {
    Class whole;
    take(1);
    whole.negated = took("^");
    if (rest_.starts_with("]")) refuse(1);
    whole.all.emplace_back();
    while (!took("]")) {
      require(!rest_.empty(), "[ has no ] that ends it");
      refuse_other_cases();
      Members& now = whole.all.back();
      if (rest_.starts_with("[:")) refuse(2);
      if (rest_.front() == '[') {
        add_class(read_class(), now);
      } else if (rest_.starts_with("&&")) {
        if (now.text.empty() && now.is_simple()) refuse(2);
        take(2);
        if (rest_.starts_with("]") || rest_.starts_with("&&")) refuse(2);
        whole.all.emplace_back();
      } else if (rest_.front() == '\\') {
        if (rest_.size() > 1 && std::string_view("bBAzZ").find(rest_[1]) != std::string_view::npos)
          refuse(2);
        const Escape escape = read_escape();
        if (escape.negated)
          now.classes.push_back("[^" + escape.text + "]");
        else
          now.text += escape.text;
      } else {
        now.text += rest_.front();
        take(1);
      }
    }
    return whole;
  }

  /// Joins its members with these where that is possible; a - between them would be of a range.
  void add_class(const Class& inner, Members& members) const {
    const bool simple = !inner.negated && inner.all.size() == 1 && inner.all[0].is_simple();
    if (simple && !members.text.ends_with('-') && !rest_.starts_with('-'))
      members.text += inner.all[0].text;
    else
      members.classes.push_back(inner.matcher());
  }

  void read_outside() {
    if (took("^")) return add("(?m:^)");
    if (took("$")) return add("(?m:$)");
    if (took("{,")) return add("{0,");
    if (rest_.starts_with("}+")) refuse(2);
    switch (rest_.front()) {
      case '(':
        return read_group();
      case ')':
        if (caseless_.size() > 1) caseless_.pop_back();
        return keep(1);
      case '{':
        return read_repetition();
      default:
        return read_character();
    }
  }
  void add(const char* text) {
    letter_ = '\0';
    out_.text += text;
  }

  void read_group() {
    if (!rest_.starts_with("(?") && !rest_.starts_with("(*")) {
      caseless_.push_back(caseless());
      return keep(1);
    }
    for (const auto& [here, there] : groups)
      if (took(here)) {
        caseless_.push_back(caseless() || here == "(?i:");
        out_.text += there;
        return;
      }
    refuse(3);
  }

  void read_repetition() {
    std::size_t end = 1;
    while (end < rest_.size() && is_digit(rest_[end])) ++end;
    if (end > 1 && rest_.substr(end).starts_with("}?"))
      refuse(end + 2, ", since to Oniguruma ? makes all of it optional");
    keep(end);
  }

  /// Oniguruma joins letters before it looks for folded ones, through groups and {1} too.
  void read_character() {
    const char c = rest_.front();
    if (std::string_view("*+?}").find(c) != std::string_view::npos) return keep(1);
    const std::string pair = {letter_, lower(c)};
    letter_ = caseless() ? lower(c) : '\0';
    for (const auto& [letters, one] : folded_pairs)
      if (caseless() && pair == letters)
        throw Error(
            str(pair, " in (?i: is not understood, since to Oniguruma it is ", one, " as well"));
    keep(1);
  }

  std::string_view rest_;
  PatternText out_;
  std::vector<bool> caseless_ = {false};  // the groups around this place, the outermost first
  char letter_ = '\0';                    // the caseless one before this place, in lower case
};

}  // namespace

PatternText pattern_of_pcre2(std::string_view pattern) { return Translator(pattern).translate(); }

std::string escaped_pattern(std::string_view text) {
  std::string pattern;
  for (char c : text) {
    const bool special = is_ascii(c) && !is_letter_or_digit(c) && c > ' ';
    if (special) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

std::string class_pattern(std::span<const CharacterRange> ranges) {
  std::string pattern = "[";
  for (const CharacterRange& range : ranges)
    pattern += fmt::format("\\x{{{:X}}}-\\x{{{:X}}}", static_cast<std::uint32_t>(range.first),
                           static_cast<std::uint32_t>(range.last));
  return pattern + "]";
}

}  // namespace trireme::data
