#include "runtime/core/text/line_clock.h"

#include <array>
#include <utility>

#include "trireme/core/error.h"

namespace trireme {
namespace {

std::string local_time(std::time_t seconds, const char* format) {
  std::tm time = {};
  std::array<char, 64> text = {};
  if (::localtime_r(&seconds, &time) == nullptr) return "?";  // no calendar has that year
  return {text.data(), std::strftime(text.data(), text.size(), format, &time)};
}

}  // namespace

std::string time_of_day(std::time_t seconds) { return local_time(seconds, "%H:%M:%S"); }

std::string day_of(std::time_t seconds) { return local_time(seconds, "%Y-%m-%d"); }

std::string LineClock::stamp(std::time_t seconds) {
  const std::string day = day_of(seconds);
  const bool is_new = std::exchange(day_, day) != day;
  return str("[", is_new ? day + " " : "", time_of_day(seconds), "]");
}

}  // namespace trireme
