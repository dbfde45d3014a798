#include "runtime/layouts/report/figures_text.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include <fmt/format.h>

#include "runtime/layouts/report/table.h"

namespace trireme::layouts {
namespace {

/// For a POSIX shell: in quotes, unless it has none but harmless characters.
std::string shell_word(const std::string& word) {
  const auto harmless = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("-_=+:,./@%").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::all_of(word.begin(), word.end(), harmless)) return word;
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? "'\\''" : std::string(1, c);
  return text + "'";
}

}  // namespace

std::string show_count(double count) {
  if (count >= 1e12) return fmt::format("{:.2f} T", count / 1e12);
  if (count >= 1e9) return fmt::format("{:.1f} B", count / 1e9);
  return fmt::format("{:.{}f} M", count / 1e6, count < 1e7 ? 1 : 0);
}

std::string in_thousands(double value) {
  std::string digits = fmt::format("{:.0f}", value);
  for (std::size_t at = digits.size(); at > 3;) digits.insert(at -= 3, 1, ',');
  return digits;
}

std::string show_seconds(double seconds) {
  constexpr double largest = 999.5;  // that three digits show
  const bool small = 1e3 * seconds < largest;
  const double value = small ? 1e3 * seconds : seconds;
  const std::string digits = value < largest ? fmt::format("{:.3g}", value) : in_thousands(value);
  return digits + (small ? " ms" : " s");
}

std::string show_hours(double hours) {
  constexpr double minutes = 60, seconds = 3600, day = 24, exact = 100;
  if (hours < 1 / minutes) return fmt::format("{:.0f} s", seconds * hours);
  if (hours < 1) return fmt::format("{:.1f} min", minutes * hours);
  if (hours < 2 * day) return fmt::format("{:.1f} h", hours);
  const double days = hours / day;
  return (days < exact ? fmt::format("{:.1f}", days) : in_thousands(days)) + " days";
}

std::string show_cost(double cost) {
  constexpr double exact = 100;  // below it cents count
  return cost < exact ? fmt::format("{:.2f}", cost) : in_thousands(cost);
}

std::string shell_command(const std::vector<std::string>& words) {
  constexpr std::size_t width = screen_width - 2;  // the rest is " \\"
  std::vector<std::string> options;                // each with its values
  for (const std::string& word : words)
    if (options.empty() || word.starts_with("--"))
      options.push_back(shell_word(word));
    else
      options.back() += ' ' + shell_word(word);
  std::string text;
  std::size_t column = 0;
  for (const std::string& option : options) {
    if (column > 1 && column + 1 + option.size() > width) {
      text += " \\\n ";
      column = 1;
    }
    text += (column == 0 ? "" : " ") + option;
    column += 1 + option.size();
  }
  return text + '\n';
}

}  // namespace trireme::layouts
