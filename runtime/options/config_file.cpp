#include "runtime/options/config_file.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>

#include "trireme/core/error.h"

#include "runtime/core/parse_number.h"

namespace trireme::options {
namespace {

constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

bool is_digit(char c) { return '0' <= c && c <= '9'; }
bool is_control(char c) { return (0 <= c && c < ' ') || c == '\x7F'; }
bool is_bare(char c) {
  return is_digit(c) || ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || c == '_' || c == '-';
}

/// Digits with single underscores between them, without the underscores.
std::optional<std::string> digits(std::string_view text, bool (*legal)(char)) {
  std::string all;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool between = i > 0 && i + 1 < text.size() && text[i - 1] != '_';
    if (text[i] == '_' ? !between : !legal(text[i])) return std::nullopt;
    if (text[i] != '_') all += text[i];
  }
  return all.empty() ? std::nullopt : std::optional(all);
}

/// 0x1F, 0o17 and 0b101 in decimal.
std::optional<std::string> in_decimal(std::string_view word) {
  const int base = word[1] == 'x' ? 16 : word[1] == 'o' ? 8 : 2;
  const auto plain = digits(word.substr(2), is_bare);
  if (!plain || plain->front() == '-') return std::nullopt;
  const auto value = parse_number<std::int64_t>(*plain, base);
  return value ? std::optional(std::to_string(*value)) : std::nullopt;
}

/// A number of TOML as C++ reads it.
std::optional<std::string> number(std::string_view word) {
  if (word.size() > 2 && word[0] == '0' && std::string_view("xob").find(word[1]) != word.npos)
    return in_decimal(word);
  std::string plain;
  if (!word.empty() && (word[0] == '+' || word[0] == '-')) {
    if (word[0] == '-') plain = "-";
    word.remove_prefix(1);
  }
  if (word == "inf" || word == "nan") return plain + std::string(word);
  const std::size_t exponent = std::min(word.find_first_of("eE"), word.size());
  const std::size_t point = std::min(word.substr(0, exponent).find('.'), exponent);
  const auto whole = digits(word.substr(0, point), is_digit);
  if (!whole || (whole->size() > 1 && whole->front() == '0')) return std::nullopt;
  plain += *whole;
  if (point < exponent) {
    const auto fraction = digits(word.substr(point + 1, exponent - point - 1), is_digit);
    if (!fraction) return std::nullopt;
    plain += '.' + *fraction;
  }
  if (exponent == word.size()) return plain;
  std::string_view power = word.substr(exponent + 1);
  plain += 'e';
  if (!power.empty() && (power[0] == '+' || power[0] == '-')) {
    plain += power[0];
    power.remove_prefix(1);
  }
  const auto tens = digits(power, is_digit);
  return tens ? std::optional(plain + *tens) : std::nullopt;
}

void append_utf8(std::string& text, std::uint32_t code) {
  const auto byte = [&](std::uint32_t value) { text += static_cast<char>(value); };
  if (code < 0x80) return byte(code);
  if (code < 0x800) {
    byte(0xC0 | (code >> 6));
  } else if (code < 0x10000) {
    byte(0xE0 | (code >> 12));
    byte(0x80 | ((code >> 6) & 0x3F));
  } else {
    byte(0xF0 | (code >> 18));
    byte(0x80 | ((code >> 12) & 0x3F));
    byte(0x80 | ((code >> 6) & 0x3F));
  }
  byte(0x80 | (code & 0x3F));
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {
    if (text_.substr(0, byte_order_mark.size()) == byte_order_mark)
      text_.remove_prefix(byte_order_mark.size());
  }

  std::vector<ConfigLine> read() {
    while (!text_.empty()) {
      ConfigLine line;
      line.line = line_;
      try {
        if (statement(line)) lines_.push_back(line);
      } catch (const Error& error) {
        line.mistake = error.what();
        lines_.push_back(line);
        if (in_list_) break;
        text_.remove_prefix(std::min(text_.find('\n'), text_.size()));
      }
      if (!text_.empty()) next_line();
    }
    return std::move(lines_);
  }

 private:
  char peek() const { return text_.empty() ? '\n' : text_.front(); }
  bool take(std::string_view expected) {
    if (text_.substr(0, expected.size()) != expected) return false;
    text_.remove_prefix(expected.size());
    return true;
  }
  void skip_blanks() {
    text_.remove_prefix(std::min(text_.find_first_not_of(" \t"), text_.size()));
  }
  bool at_end_of_line() const { return peek() == '\n' || text_.substr(0, 2) == "\r\n"; }
  void next_line() {
    text_.remove_prefix(text_.find('\n') + 1);
    ++line_;
  }
  std::string rest_of_line() const {
    return shortened(text_.substr(0, text_.find_first_of("\r\n")), 40);
  }

  /// To the end of the line. Returns false when it says nothing.
  bool statement(ConfigLine& line) {
    skip_blanks();
    const bool section = peek() == '[', says = !section && peek() != '#' && !at_end_of_line();
    if (section) header();
    if (says) key_and_value(line);
    skip_blanks();
    if (peek() == '#') skip_comment();
    require(at_end_of_line(), "'", rest_of_line(), "' follows ", says ? line.key : "[section]",
            "; a line holds one key = value");
    return says;
  }

  void skip_comment() {
    const std::string_view comment = text_.substr(0, text_.find_first_of("\r\n"));
    check_text(comment);
    text_.remove_prefix(comment.size());
  }

  static void check_text(std::string_view text) {
    const auto control =
        std::find_if(text.begin(), text.end(), [](char c) { return is_control(c) && c != '\t'; });
    require(control == text.end(), "a control character (number ",
            control == text.end() ? 0 : static_cast<int>(*control), ") is in the text");
  }

  void header() {
    require(text_.substr(0, 2) != "[[", rest_of_line(),
            " begins a list of sections, which no option takes; write [name], or key = value");
    const std::string written = rest_of_line();
    take("[");
    std::string name;
    do {
      skip_blanks();
      if (!name.empty()) name += '.';
      name += key();
      skip_blanks();
    } while (take("."));
    require(take("]"), "'", written, "' has no ']' behind its name; a section is [name]");
    const auto [first, is_new] = sections_.emplace(name, line_);
    require(is_new, "section [", shortened(name), "] begins again, first on line ", first->second,
            "; keep its keys together");
  }

  std::string key() {
    if (peek() == '"' || peek() == '\'') return quoted();
    const auto end = std::find_if_not(text_.begin(), text_.end(), is_bare);
    std::string name(text_.begin(), end);
    require(!name.empty(), "'", rest_of_line(),
            "' is no key; a line is key = value, where a key is an option without its dashes");
    text_.remove_prefix(name.size());
    return name;
  }

  void key_and_value(ConfigLine& line) {
    line.key = key();
    skip_blanks();
    const std::string shown = shortened(line.key);
    require(peek() != '.', shown, rest_of_line(), ": a key has no dots; write ", shown,
            " as a [section] of its own, or leave it out");
    require(!at_end_of_line() && peek() != '#', shown, " has no value; write ", shown,
            " = VALUE, or ", shown, " = true for a flag");
    require(take("="), "'", rest_of_line(), "' follows ", shown, ", where '=' is expected");
    skip_blanks();
    line.list = peek() == '[';
    line.quoted = true;
    if (line.list)
      list(line);
    else
      value(line);
  }

  void skip_blank_lines() {
    for (skip_blanks(); !text_.empty() && (peek() == '#' || at_end_of_line()); skip_blanks())
      if (peek() == '#')
        skip_comment();
      else
        next_line();
  }

  void list(ConfigLine& line) {
    in_list_ = true;
    take("[");
    for (bool more = true;; more = take(",")) {
      skip_blank_lines();
      if (take("]")) break;
      require(more && !text_.empty(), "the '[' of ", shortened(line.key),
              " is not closed: ',' or ']' is expected on line ", line_, ", not ",
              text_.empty() ? "the end of the file" : "'" + rest_of_line() + "'");
      value(line);
      skip_blank_lines();
    }
    in_list_ = false;
  }

  void value(ConfigLine& line) {
    const std::string key = shortened(line.key);
    if (peek() == '"' || peek() == '\'') return line.values.push_back(quoted());
    line.quoted = false;
    require(peek() != '[' && peek() != '{', key, " = ", rest_of_line(),
            ": no option takes lists in lists or tables in braces");
    const std::string word(text_.substr(0, text_.find_first_of(" \t\r\n,]#")));
    require(!word.empty(), key, " has no value; write ", key, " = VALUE");
    const auto plain = word == "true" || word == "false" ? std::optional(word) : number(word);
    const std::string shown = shortened(word, 40);
    require(plain.has_value(), key, " = ", shown, ": expected a number, true or false; a text ",
            "must be quoted: \"", shown, "\"");
    text_.remove_prefix(word.size());
    line.values.push_back(*plain);
  }

  /// "with \n and so on", or 'as it is'.
  std::string quoted() {
    const char quote = peek();
    const std::string begin = rest_of_line();
    require(text_.substr(0, 3) != std::string(3, quote), begin,
            ": a text over several lines is not read; write \"one\\ntwo\"");
    text_.remove_prefix(1);
    std::string all;
    while (peek() != quote) {
      require(!at_end_of_line(), "the ", quote, " of ", begin, " is not closed");
      check_text(text_.substr(0, 1));
      const char c = peek();
      text_.remove_prefix(1);
      if (c == '\\' && quote == '"')
        escape(all);
      else
        all += c;
    }
    text_.remove_prefix(1);
    return all;
  }

  void escape(std::string& all) {
    constexpr std::string_view names = "btnfr\"\\", meanings = "\b\t\n\f\r\"\\";
    const char name = peek();
    const std::size_t known = names.find(name);
    const std::size_t length = name == 'u' ? 4 : name == 'U' ? 8 : 0;
    if (length > 0 && text_.size() > length) {
      const auto code = parse_number<std::uint32_t>(text_.substr(1, length), 16);
      const bool scalar = code && (*code < 0xD800 || (0xDFFF < *code && *code <= 0x10FFFF));
      if (scalar) {
        append_utf8(all, *code);
        return text_.remove_prefix(1 + length);
      }
    }
    require(length == 0 && known != names.npos, "'\\", rest_of_line(),
            "': known are \\n \\t \\r \\b \\f \\\" \\\\ \\uXXXX and \\UXXXXXXXX; a text in ",
            "'single quotes' is taken as it is");
    all += meanings[known];
    text_.remove_prefix(1);
  }

  std::string_view text_;  // what is left
  int line_ = 1;
  bool in_list_ = false;
  std::map<std::string, int> sections_;  // and where they begin
  std::vector<ConfigLine> lines_;
};

}  // namespace

std::vector<ConfigLine> read_config(std::string_view text) { return Reader(text).read(); }

std::string shortened(std::string_view text, std::size_t most) {
  std::size_t length = std::min(text.size(), most);
  const auto inside_character = [&](std::size_t i) {
    return i < text.size() && (static_cast<unsigned char>(text[i]) & 0xC0) == 0x80;
  };
  while (length > 0 && length < text.size() && inside_character(length)) --length;
  std::string shown(text.substr(0, length));
  std::replace_if(shown.begin(), shown.end(), is_control, '?');
  return length < text.size() ? shown + "..." : shown;
}

}  // namespace trireme::options
