// Text of reports for a screen of 100 columns: paragraphs, tables of which some columns wrap, and
// figures.
//
// Not installed; modules above may include it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace trireme::layouts {

inline constexpr std::size_t screen_width = 100;

/// The columns that a text of UTF-8 takes.
std::size_t columns_of(const std::string& text);
/// One paragraph as lines; those after the first begin with so many spaces. A word that is longer
/// than a line stays whole.
std::string wrapped(const std::string& paragraph, std::size_t indent);

/// Rows of cells. Each column is as wide as its widest cell; those that wrap become narrower where
/// the table would be wider than the screen.
class Table {
 public:
  struct Column {
    std::string title;
    bool wraps = false;   // left-aligned; else right-aligned
    std::size_t gap = 2;  // spaces behind it
  };
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// Empty cells at the end may be left out.
  void add(std::vector<std::string> cells);
  /// A line below the last row.
  void add_note(std::string text) { rows_.back().notes.push_back(std::move(text)); }
  /// Without the row of titles where all of them are empty.
  std::string text() const;

 private:
  struct Row {
    std::vector<std::string> cells;
    std::vector<std::string> notes;
  };
  std::size_t gap_before(std::size_t column) const {
    return column == 0 ? 0 : columns_[column - 1].gap;
  }
  std::vector<std::size_t> widths() const;
  std::string line(const std::vector<std::string>& cells,
                   const std::vector<std::size_t>& widths) const;

  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

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
