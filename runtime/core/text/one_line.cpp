#include "runtime/core/text/one_line.h"

#include <algorithm>

#include <fmt/format.h>

namespace trireme {

std::string one_line(std::string_view text, std::size_t most) {
  std::size_t end = std::min(text.size(), most);
  // Of no character of UTF-8 a part.
  while (end < text.size() && end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80)
    --end;
  std::string line;
  for (const char c : text.substr(0, end)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f)
      line += fmt::format("\\x{:02x}", byte);
    else
      line += c;
  }
  if (end < text.size()) line += fmt::format("... ({} bytes)", text.size());
  return line;
}

}  // namespace trireme
