#include "launch/supervisor/machine/redraw.h"

#include <algorithm>

#include <fmt/format.h>

namespace trireme::supervisor {
namespace {

/// Characters of UTF-8.
int width_of(std::string_view line) {
  return static_cast<int>(std::count_if(line.begin(), line.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

}  // namespace

std::string back_over(std::string_view shown, TerminalSize size) {
  int rows = 0;
  while (!shown.empty()) {
    const std::size_t end = std::min(shown.find('\n'), shown.size());
    rows += std::max(1, (width_of(shown.substr(0, end)) + size.columns - 1) / size.columns);
    shown.remove_prefix(std::min(end + 1, shown.size()));
  }
  if (rows == 0) return "";
  // The first of more rows than there are have gone up and away.
  return rows < size.rows ? fmt::format("\r\033[{}A\033[J", rows) : "\033[H\033[J";
}

}  // namespace trireme::supervisor
