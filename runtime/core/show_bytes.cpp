#include "runtime/core/show_bytes.h"

#include <fmt/format.h>

namespace trireme {

std::string show_bytes(Index bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  constexpr const char* units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  constexpr std::size_t gib = 2;
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; value >= (unit < gib ? 1023.95 : 1023.995); ++unit) value /= 1024;  // shown as 1024.0
  return fmt::format("{:.{}f} {}", value, unit < gib ? 1 : 2, units[unit]);
}

}  // namespace trireme
