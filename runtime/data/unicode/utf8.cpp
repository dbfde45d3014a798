#include "runtime/data/unicode/utf8.h"

#include <algorithm>
#include <cstring>

namespace trireme::data {
namespace {

bool is_tail(unsigned char byte) { return (byte & 0xC0) == 0x80; }

/// Bytes of the character at `at`, before `end`; 0 where there is none.
std::size_t valid_character(const unsigned char* at, const unsigned char* end) {
  const unsigned char lead = *at;
  const auto left = static_cast<std::size_t>(end - at);
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  const std::size_t bytes = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (left < bytes) return 0;
  for (std::size_t i = 1; i < bytes; ++i)
    if (!is_tail(at[i])) return 0;
  if (lead == 0xE0 && at[1] < 0xA0) return 0;  // overlong
  if (lead == 0xED && at[1] > 0x9F) return 0;  // surrogates
  if (lead == 0xF0 && at[1] < 0x90) return 0;  // overlong
  if (lead == 0xF4 && at[1] > 0x8F) return 0;  // beyond U+10FFFF
  return bytes;
}

bool eight_are_ascii(const unsigned char* at) {
  std::uint64_t eight;
  std::memcpy(&eight, at, sizeof eight);
  return (eight & 0x8080808080808080u) == 0;
}

}  // namespace

std::size_t first_invalid(std::string_view text) {
  const auto* begin = reinterpret_cast<const unsigned char*>(text.data());
  const auto* end = begin + text.size();
  for (const auto* at = begin; at != end;) {
    if (end - at >= 8 && eight_are_ascii(at)) {
      at += 8;
      continue;
    }
    const std::size_t bytes = valid_character(at, end);
    if (bytes == 0) return static_cast<std::size_t>(at - begin);
    at += bytes;
  }
  return text.size();
}

std::string with_replacements(std::string_view text) {
  std::string valid;
  while (!text.empty()) {
    const std::size_t good = first_invalid(text);
    valid += text.substr(0, good);
    text.remove_prefix(good);
    if (text.empty()) break;
    const auto lead = static_cast<unsigned char>(text[0]);
    const std::size_t most = lead < 0xC2 || lead > 0xF4 ? 1 : character_bytes(text[0]);
    std::size_t bytes = 1;
    while (bytes < std::min(most, text.size()) && is_tail(static_cast<unsigned char>(text[bytes])))
      ++bytes;
    valid += replacement;
    text.remove_prefix(bytes);
  }
  return valid;
}

void append_character(char32_t c, std::string& text) {
  const auto add = [&](char32_t byte) { text += static_cast<char>(byte); };
  if (c < 0x80) {
    add(c);
  } else if (c < 0x800) {
    add(0xC0 | c >> 6), add(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    add(0xE0 | c >> 12), add(0x80 | (c >> 6 & 0x3F)), add(0x80 | (c & 0x3F));
  } else {
    add(0xF0 | c >> 18), add(0x80 | (c >> 12 & 0x3F));
    add(0x80 | (c >> 6 & 0x3F)), add(0x80 | (c & 0x3F));
  }
}

bool is_white_space(char32_t c) {
  return (c >= 0x9 && c <= 0xD) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

std::size_t leading_white_space(std::string_view text) {
  std::size_t end = 0;
  while (end < text.size() && is_white_space(character_at(&text[end])))
    end += character_bytes(text[end]);
  return end;
}

std::size_t trailing_white_space(std::string_view text) {
  std::size_t begin = text.size();
  while (begin > 0) {
    std::size_t at = begin - 1;
    while ((static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
    if (!is_white_space(character_at(&text[at]))) break;
    begin = at;
  }
  return text.size() - begin;
}

}  // namespace trireme::data
