// Figures and commands in the texts of trireme plan.
//
// Not installed; modules above may include it.
#pragma once

#include <string>
#include <vector>

namespace trireme::layouts {

/// 70553706496 -> "70.6 B", 124439808 -> "124 M"; 15e12 -> "15.00 T".
std::string show_count(double count);
/// 64450.2 -> "64,450".
std::string in_thousands(double value);
/// "0.85 ms", "1.23 s", "1,234 s".
std::string show_seconds(double seconds);
/// "50 s", "12.0 min", "43.1 h", "12.5 days".
std::string show_hours(double hours);
/// "12.50", "6,535".
std::string show_cost(double cost);

/// The words as lines to paste into a POSIX shell.
std::string shell_command(const std::vector<std::string>& words);

}  // namespace trireme::layouts
