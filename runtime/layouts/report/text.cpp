#include "runtime/layouts/report/text.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <string_view>

#include <fmt/format.h>

namespace trireme::layouts {
namespace {

/// Where a text may be broken: a layout between its words, such as "tp 8", which two spaces part.
std::string_view separator_of(const std::string& text) {
  return text.find("  ") == std::string::npos ? " " : "  ";
}

std::vector<std::string> pieces_of(const std::string& text) {
  const std::string_view separator = separator_of(text);
  std::vector<std::string> pieces;
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find(separator, begin)) != std::string::npos;
       begin = end + separator.size())
    pieces.push_back(text.substr(begin, end - begin));
  pieces.push_back(text.substr(begin));
  return pieces;
}

std::vector<std::string> lines_of(const std::string& text, std::size_t width) {
  const std::string_view separator = separator_of(text);
  std::vector<std::string> lines;
  for (const std::string& piece : pieces_of(text)) {
    const std::size_t more = separator.size() + columns_of(piece);
    if (!lines.empty() && columns_of(lines.back()) + more <= width)
      lines.back().append(separator) += piece;
    else
      lines.push_back(piece);
  }
  return lines;
}

std::string spaces(std::size_t count) { return std::string(count, ' '); }

std::size_t longest(const std::vector<std::string>& texts) {
  std::size_t most = 0;
  for (const std::string& text : texts) most = std::max(most, columns_of(text));
  return most;
}

}  // namespace

std::size_t columns_of(const std::string& text) {
  constexpr unsigned continues = 0x80, mask = 0xC0;
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & mask) != continues;
  }));
}

std::string wrapped(const std::string& paragraph, std::size_t indent) {
  std::string text;
  std::size_t column = 0, begin = 0;
  while (begin < paragraph.size()) {
    const std::size_t word = std::min(paragraph.find_first_not_of(' ', begin), paragraph.size());
    const std::size_t end = std::min(paragraph.find(' ', word), paragraph.size());
    const std::string shown = paragraph.substr(word, end - word);
    if (column > indent && column + (word - begin) + columns_of(shown) > screen_width) {
      text += '\n' + spaces(indent);
      column = indent;
    } else {
      text += spaces(word - begin);
      column += word - begin;
    }
    text += shown;
    column += columns_of(shown);
    begin = end;
  }
  return text + '\n';
}

void Table::add(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  rows_.push_back({std::move(cells), {}});
}

std::vector<std::size_t> Table::widths() const {
  std::vector<std::size_t> widths, least;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    widths.push_back(columns_of(columns_[c].title));
    least.push_back(widths.back());
    for (const Row& row : rows_) {
      widths[c] = std::max(widths[c], columns_of(row.cells[c]));
      least[c] = std::max(least[c], longest(pieces_of(row.cells[c])));
    }
  }
  std::size_t total = std::accumulate(widths.begin(), widths.end(), std::size_t{0});
  for (std::size_t c = 0; c < columns_.size(); ++c) total += gap_before(c);
  for (; total > screen_width; --total) {
    std::size_t widest = columns_.size();
    for (std::size_t c = 0; c < columns_.size(); ++c)
      if (columns_[c].wraps && widths[c] > least[c] &&
          (widest == columns_.size() || widths[c] > widths[widest]))
        widest = c;
    if (widest == columns_.size()) break;
    --widths[widest];
  }
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    if (!columns_[c].wraps) continue;
    std::size_t used = columns_of(columns_[c].title);
    for (const Row& row : rows_) used = std::max(used, longest(lines_of(row.cells[c], widths[c])));
    widths[c] = used;
  }
  return widths;
}

std::string Table::line(const std::vector<std::string>& cells,
                        const std::vector<std::size_t>& widths) const {
  std::vector<std::vector<std::string>> lines;
  std::size_t count = 1;
  for (std::size_t c = 0; c < cells.size(); ++c) {
    lines.push_back(columns_[c].wraps ? lines_of(cells[c], widths[c])
                                      : std::vector<std::string>{cells[c]});
    count = std::max(count, lines[c].size());
  }
  std::string all;
  for (std::size_t i = 0; i < count; ++i) {
    std::string text;
    for (std::size_t c = 0; c < lines.size(); ++c) {
      const std::string cell = i < lines[c].size() ? lines[c][i] : "";
      const std::string blank = spaces(widths[c] - columns_of(cell));
      text += spaces(gap_before(c)) + (columns_[c].wraps ? cell + blank : blank + cell);
    }
    text.resize(text.find_last_not_of(' ') + 1);
    all += text + '\n';
  }
  return all;
}

std::string Table::text() const {
  const std::vector<std::size_t> all = widths();
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  std::string text = longest(titles) > 0 ? line(titles, all) : "";
  for (const Row& row : rows_) {
    text += line(row.cells, all);
    for (const std::string& note : row.notes) text += wrapped("     " + note, 5);
  }
  return text;
}

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
