#include "runtime/data/tokenizer/normalizer.h"

#include <algorithm>
#include <array>
#include <vector>

#include <utf8proc.h>

#include "trireme/core/error.h"

#include "runtime/data/unicode/unicode_versions.h"
#include "runtime/data/unicode/utf8.h"

namespace trireme::data {
namespace {

constexpr auto nfc_options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);

/// Appends the full decomposition of `c`, in no order of classes.
void decompose(char32_t c, std::vector<utf8proc_int32_t>& characters) {
  std::array<utf8proc_int32_t, 32> parts;
  int last_class = 0;
  const utf8proc_ssize_t count = utf8proc_decompose_char(
      static_cast<utf8proc_int32_t>(c), parts.data(), parts.size(),
      static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE), &last_class);
  require(count > 0 && count <= static_cast<utf8proc_ssize_t>(parts.size()),
          "utf8proc: ", utf8proc_errmsg(count));
  characters.insert(characters.end(), parts.begin(), parts.begin() + count);
}

/// Appends NFC of `text`. utf8proc_map() takes quadratic time for a run of combining characters.
void append_nfc(std::string_view text, std::string& out) {
  std::vector<utf8proc_int32_t> characters;
  for (std::size_t at = 0; at < text.size(); at += character_bytes(text[at]))
    decompose(character_at(&text[at]), characters);
  const auto class_of = [](utf8proc_int32_t c) {
    return utf8proc_get_property(c)->combining_class;
  };
  const auto is_starter = [&](utf8proc_int32_t c) { return class_of(c) == 0; };
  for (auto at = characters.begin(); at != characters.end();) {
    const auto first = std::find_if_not(at, characters.end(), is_starter);
    at = std::find_if(first, characters.end(), is_starter);
    std::stable_sort(first, at, [&](auto a, auto b) { return class_of(a) < class_of(b); });
  }
  const utf8proc_ssize_t count = utf8proc_normalize_utf32(
      characters.data(), static_cast<utf8proc_ssize_t>(characters.size()), nfc_options);
  require(count >= 0, "utf8proc: ", utf8proc_errmsg(count));
  characters.resize(static_cast<std::size_t>(count));
  for (const utf8proc_int32_t c : characters) append_character(static_cast<char32_t>(c), out);
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

Nfc::Nfc() {
  stable_.set();
  std::vector<utf8proc_int32_t> parts;
  for (char32_t c = 0x80; c < planes; ++c) {
    if (is_newer_than_nfc(c) || (c >= 0xD800 && c < 0xE000)) continue;
    const auto code = static_cast<utf8proc_int32_t>(c);
    if (utf8proc_get_property(code)->combining_class != 0) stable_.reset(c);
    parts.clear();
    decompose(c, parts);
    // What may be composed with a character before it, and what NFC replaces.
    for (std::size_t i = 1; i < parts.size(); ++i)
      if (!is_newer_than_nfc(static_cast<char32_t>(parts[i])))
        stable_.reset(static_cast<std::size_t>(parts[i]));
    if (parts.size() == 1 && parts[0] == code) continue;
    std::string character, composed;
    append_character(c, character);
    append_nfc(character, composed);
    if (composed != character) stable_.reset(c);
  }
}

std::string_view Nfc::apply(std::string_view text, std::string& memory) const {
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
    const bool alone = at == 0 || is_newer_than_nfc(character_at(&text[before]));
    const std::size_t begin = alone ? at : before;
    std::size_t end = at;
    while (end < text.size() && !is_stable(character_at(&text[end])))
      end += character_bytes(text[end]);
    if (!changed) memory.clear();
    changed = true;
    memory.append(text, copied, begin - copied);
    append_nfc(text.substr(begin, end - begin), memory);
    copied = before = at = end;
  }
  if (!changed) return text;
  memory.append(text, copied);
  return memory;
}

Normalizer::Normalizer(const std::vector<NormalizerStep>& steps) : steps_(steps) {
  for (const NormalizerStep& step : steps_)
    if (step.kind == NormalizerStep::Kind::nfc && !nfc_) nfc_.emplace();
}

std::string_view Normalizer::apply(std::string_view text, Memory& memory) const {
  for (const NormalizerStep& step : steps_) {
    if (text.empty()) return text;
    const std::string_view before = text;
    if (step.kind == NormalizerStep::Kind::nfc) {
      text = nfc_->apply(before, memory.next);
    } else {
      memory.next.clear();
      if (step.kind == NormalizerStep::Kind::prepend)
        memory.next.append(step.content).append(before);
      else
        replace_all(before, step.pattern, step.content, most_normalized_bytes, memory.next);
      text = memory.next;
    }
    if (text.data() == memory.next.data()) {
      std::swap(memory.now, memory.next);  // small texts move with the swap
      text = memory.now;
    }
  }
  return text;
}

}  // namespace trireme::data
