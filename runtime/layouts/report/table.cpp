#include "runtime/layouts/report/table.h"

#include <algorithm>
#include <numeric>
#include <string_view>

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

}  // namespace trireme::layouts
