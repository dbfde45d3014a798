// LineClock: the time of day at the head of a line for people.
//
// Not installed; modules above may include it.
#pragma once

#include <ctime>
#include <string>

namespace trireme {

/// "10:14:55", by the clock and the time zone of this process. `seconds`: since 1970.
std::string time_of_day(std::time_t seconds);
/// "2026-11-28", likewise.
std::string day_of(std::time_t seconds);

class LineClock {
 public:
  /// "[10:14:55]" for the next line; "[2026-11-28 10:14:55]" for the first one, and for one of
  /// another day than the line before.
  std::string stamp(std::time_t seconds = std::time(nullptr));

 private:
  std::string day_;  // day of the line before
};

}  // namespace trireme
