// Numbers in texts.
//
// Not installed; modules above may include it.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>

namespace trireme {

/// All of `text` as a number of type T, whole or not; nothing where it is none, or T cannot hold
/// it. `base`: of a whole number, as std::from_chars() has it.
template <class T, class... Base>
std::optional<T> parse_number(std::string_view text, Base... base) {
  T value{};
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value, base...);
  if (error != std::errc() || end != last) return std::nullopt;
  return value;
}

}  // namespace trireme
