// Characters of UTF-8 text.
//
// Not installed; modules above may include it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace trireme::data {

/// Bytes of the character that begins with `lead`, in valid text.
inline std::size_t character_bytes(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

/// The character at `at` of valid text.
inline char32_t character_at(const char* at) {
  const auto byte = [&](int i) { return static_cast<char32_t>(static_cast<unsigned char>(at[i])); };
  const auto low = [&](int i) { return byte(i) & 0x3F; };
  switch (character_bytes(*at)) {
    case 1:
      return byte(0);
    case 2:
      return (byte(0) & 0x1F) << 6 | low(1);
    case 3:
      return (byte(0) & 0x0F) << 12 | low(1) << 6 | low(2);
    default:
      return (byte(0) & 0x07) << 18 | low(1) << 12 | low(2) << 6 | low(3);
  }
}

/// The offset of the first byte that is not UTF-8 (surrogates and overlong forms are not); the size
/// when there is none.
std::size_t first_invalid(std::string_view text);

inline constexpr std::string_view replacement = "\xEF\xBF\xBD";  // U+FFFD

/// The text with U+FFFD in place of what is not UTF-8: of each part of a character, or byte.
std::string with_replacements(std::string_view text);

void append_character(char32_t character, std::string& text);

/// Unicode's White_Space.
bool is_white_space(char32_t character);
/// How many bytes of it stand at the beginning and at the end of valid text.
std::size_t leading_white_space(std::string_view text);
std::size_t trailing_white_space(std::string_view text);

}  // namespace trireme::data
