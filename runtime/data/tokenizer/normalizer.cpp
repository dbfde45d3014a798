#include "runtime/data/tokenizer/normalizer.h"

#include <algorithm>
#include <array>
#include <vector>

#include <utf8proc.h>

#include "trireme/core/error.h"

#include "runtime/data/unicode/unicode_tables.h"
#include "runtime/data/unicode/utf8.h"

namespace trireme::data {
namespace {

/// Appends the full decomposition of `c`, in no order of classes.
void decompose(char32_t c, bool compatible, std::vector<utf8proc_int32_t>& characters) {
  std::array<utf8proc_int32_t, 32> parts;
  int last_class = 0;
  const int options =
      UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compatible ? int{UTF8PROC_COMPAT} : 0);
  const utf8proc_ssize_t count =
      utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), parts.data(), parts.size(),
                              static_cast<utf8proc_option_t>(options), &last_class);
  require(count > 0 && count <= static_cast<utf8proc_ssize_t>(parts.size()),
          "utf8proc: ", utf8proc_errmsg(count));
  characters.insert(characters.end(), parts.begin(), parts.begin() + count);
}

char32_t lower_case(char32_t c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + 0x20 : c;
  if (const LowerCase* newer = range_of(newer_lower_cases(), c))
    return static_cast<char32_t>(static_cast<int>(c) + newer->distance);
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

void append_lower_case(std::string_view text, std::string& out) {
  for (std::size_t at = 0; at < text.size(); at += character_bytes(text[at])) {
    const char32_t c = character_at(&text[at]);
    append_character(lower_case(c), out);
    if (c == 0x130) append_character(0x307, out);  // the one that becomes two
  }
}

/// A step may make text longer, and each of several steps the text of the one before.
constexpr std::size_t most_normalized_bytes = std::size_t{4} << 30;

}  // namespace

void replace_all(std::string_view text, const std::string& pattern, const std::string& content,
                 std::size_t most, std::string& out) {
  std::size_t from = 0;
  for (std::size_t at; (at = text.find(pattern, from)) != text.npos; from = at + pattern.size()) {
    out.append(text, from, at - from).append(content);
    require(out.size() <= most, "replacing \"", pattern, "\" by \"", content,
            "\" makes a text longer than ", most, " bytes");
  }
  out.append(text, from);
}

/// Appends the form of `text`. utf8proc_map() takes quadratic time for a run of combining
/// characters.
void NormalForm::append_form(std::string_view text, std::string& out) const {
  std::vector<utf8proc_int32_t> characters;
  for (std::size_t at = 0; at < text.size(); at += character_bytes(text[at]))
    decompose(character_at(&text[at]), compatible_, characters);
  const auto class_of = [](utf8proc_int32_t c) {
    return utf8proc_get_property(c)->combining_class;
  };
  const auto is_starter = [&](utf8proc_int32_t c) { return class_of(c) == 0; };
  for (auto at = characters.begin(); at != characters.end();) {
    const auto first = std::find_if_not(at, characters.end(), is_starter);
    at = std::find_if(first, characters.end(), is_starter);
    std::stable_sort(first, at, [&](auto a, auto b) { return class_of(a) < class_of(b); });
  }
  if (composed_) {
    const utf8proc_ssize_t count = utf8proc_normalize_utf32(
        characters.data(), static_cast<utf8proc_ssize_t>(characters.size()),
        static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    require(count >= 0, "utf8proc: ", utf8proc_errmsg(count));
    characters.resize(static_cast<std::size_t>(count));
  }
  for (const utf8proc_int32_t c : characters) append_character(static_cast<char32_t>(c), out);
}

namespace {

/// Returns: whether it leaves out the beginning of `text`.
bool replace_matches(std::string_view text, Pattern::Search& search, const std::string& content,
                     std::string& out) {
  search.start(text);
  bool left_out_beginning = false;
  std::size_t end = 0;
  for (Pattern::Search::Match match; search.next(match); end = match.end) {
    if (match.begin == 0 && match.end > 0) left_out_beginning = content.empty();
    out.append(text, end, match.begin - end).append(content);
    require(out.size() <= most_normalized_bytes, "replacing matches by \"", content,
            "\" makes a text longer than ", most_normalized_bytes, " bytes");
  }
  out.append(text, end);
  return left_out_beginning;
}

}  // namespace

NormalForm::NormalForm(bool composed, bool compatible)
    : composed_(composed), compatible_(compatible) {
  stable_.set();
  std::vector<utf8proc_int32_t> parts;
  for (char32_t c = 0x80; c < planes; ++c) {
    if (is_newer_than_forms(c) || (c >= 0xD800 && c < 0xE000)) continue;
    const auto code = static_cast<utf8proc_int32_t>(c);
    if (utf8proc_get_property(code)->combining_class != 0) stable_.reset(c);
    parts.clear();
    decompose(c, compatible, parts);
    // What may be composed with a character before it, and what the form replaces.
    for (std::size_t i = 1; i < parts.size(); ++i)
      if (!is_newer_than_forms(static_cast<char32_t>(parts[i])))
        stable_.reset(static_cast<std::size_t>(parts[i]));
    if (parts.size() == 1 && parts[0] == code) continue;
    std::string character, form;
    append_character(c, character);
    append_form(character, form);
    if (form != character) stable_.reset(c);
  }
}

std::string_view NormalForm::apply(std::string_view text, std::string& memory) const {
  bool changed = false;
  std::size_t copied = 0, before = 0;  // `before`: where the character before `at` begins
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = character_bytes(text[at]);
    if (bytes == 1 || is_stable(character_at(&text[at]))) {
      before = at;
      at += bytes;
      continue;
    }
    // Characters that may change, and the one before them, with which they may become one.
    const bool alone = at == 0 || is_newer_than_forms(character_at(&text[before]));
    const std::size_t begin = alone ? at : before;
    std::size_t end = at;
    while (end < text.size() && !is_stable(character_at(&text[end])))
      end += character_bytes(text[end]);
    if (!changed) memory.clear();
    changed = true;
    memory.append(text, copied, begin - copied);
    append_form(text.substr(begin, end - begin), memory);
    copied = before = at = end;
  }
  if (!changed) return text;
  memory.append(text, copied);
  return memory;
}

Normalizer::Normalizer(const std::vector<NormalizerStep>& steps) {
  using Kind = NormalizerStep::Kind;
  for (const NormalizerStep& step : steps) {
    const bool compatible = step.kind == Kind::nfkc || step.kind == Kind::nfkd;
    const bool composed = step.kind == Kind::nfc || step.kind == Kind::nfkc;
    const bool is_form = compatible || composed || step.kind == Kind::nfd;
    steps_.push_back({step, is_form ? std::make_unique<NormalForm>(composed, compatible) : nullptr,
                      patterns_.size()});
    if (step.kind == Kind::replace_matches) patterns_.emplace_back(step.pattern);
  }
}

Normalizer::Memory Normalizer::make_memory() const {
  Memory memory;
  for (const Pattern& pattern : patterns_) memory.searches.emplace_back(pattern);
  return memory;
}

/// Returns: part of `text`, or `memory.next`.
std::string_view Normalizer::changed(const Step& step, std::string_view text,
                                     Memory& memory) const {
  using Kind = NormalizerStep::Kind;
  const auto& [kind, pattern, content] = step.definition;
  std::string& out = memory.next;
  out.clear();
  switch (kind) {
    case Kind::nfc:
    case Kind::nfd:
    case Kind::nfkc:
    case Kind::nfkd:
      return step.form->apply(text, out);
    case Kind::strip_left: {
      const std::size_t bytes = leading_white_space(text);
      if (bytes > 0) memory.left_out_beginning = true;
      return text.substr(bytes);
    }
    case Kind::strip_right:
      return text.substr(0, text.size() - trailing_white_space(text));
    case Kind::prepend:
      out.append(content).append(text);
      break;
    case Kind::replace:
      if (content.empty() && text.starts_with(pattern)) memory.left_out_beginning = true;
      replace_all(text, pattern, content, most_normalized_bytes, out);
      break;
    case Kind::replace_matches:
      if (replace_matches(text, memory.searches[step.search], content, out))
        memory.left_out_beginning = true;
      break;
    case Kind::lowercase:
      append_lower_case(text, out);
      break;
    case Kind::alphabet:
      append_in_alphabet(text, out);
  }
  return out;
}

std::string_view Normalizer::apply(std::string_view text, Memory& memory) const {
  memory.left_out_beginning = false;
  for (const Step& step : steps_) {
    if (text.empty()) return text;
    text = changed(step, text, memory);
    if (text.data() == memory.next.data()) {
      std::swap(memory.now, memory.next);  // small texts move with the swap
      text = memory.now;
    }
  }
  return text;
}

}  // namespace trireme::data
