#include "runtime/core/text/one_line.h"

#include <algorithm>

#include <fmt/format.h>

namespace trireme {

namespace {

/// Replaces control characters but those in `kept`: of ASCII, and of Unicode U+0080 to U+009F,
/// which UTF-8 writes as 0xC2 and that number.
std::string without_control(std::string_view text, std::string_view kept) {
  std::string clean;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : '\0');
    const bool of_two_bytes = byte == 0xC2 && next >= 0x80 && next <= 0x9F;
    if (of_two_bytes)
      clean += fmt::format("\\x{:02x}\\x{:02x}", byte, next);
    else if ((byte < 0x20 || byte == 0x7f) && kept.find(text[i]) == std::string_view::npos)
      clean += fmt::format("\\x{:02x}", byte);
    else
      clean += text[i];
    i += of_two_bytes ? 1 : 0;
  }
  return clean;
}

}  // namespace

std::string printable(std::string_view text) { return without_control(text, "\n\t"); }

std::string one_line(std::string_view text, std::size_t most) {
  std::size_t end = std::min(text.size(), most);
  // Of no character of UTF-8 a part.
  while (end < text.size() && end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80)
    --end;
  std::string line = without_control(text.substr(0, end), "");
  if (end < text.size()) line += fmt::format("... ({} bytes)", text.size());
  return line;
}

}  // namespace trireme
