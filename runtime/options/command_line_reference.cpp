// Implements CommandLine::reference (trireme/options/command_line.h).
// The options as a page of Markdown, and the tables below them.
#include <algorithm>

#include "runtime/options/command_line_state.h"

namespace trireme {

using namespace options;

namespace {

/// "--tensor-model-parallel-size,--tp" -> "`--tensor-model-parallel-size N`, `--tp`"
std::string spelled(const OptionDefinition& option) {
  const std::size_t comma = std::min(option.names.find(','), option.names.size());
  std::string all =
      "`" + option.names.substr(0, comma) + (option.value.empty() ? "" : " " + option.value) + "`";
  if (comma < option.names.size()) all += ", `" + option.names.substr(comma + 1) + "`";
  return all;
}

std::string row(const std::vector<std::string>& cells) {
  std::string line = "|";
  for (const std::string& cell : cells) line += " " + cell + " |";
  return line + "\n";
}

std::string header(const std::vector<std::string>& titles) {
  std::string line = row(titles) + "|";
  for (std::size_t i = 0; i < titles.size(); ++i) line += "---|";
  return line + "\n";
}

}  // namespace

std::string CommandLine::reference() const {
  const State& s = *state_;
  std::string page = "# Options of " + s.program + "\n\nThis page is what `" + s.program +
                     " --help-markdown` prints.\nA flag takes no value, and is off unless its "
                     "meaning says otherwise.\n";
  std::string group;
  for (const State::Option& option : s.options) {
    const OptionDefinition& definition = option.definition;
    if (option.group != group)
      page += "\n## " + option.group + "\n\n" + header({"option", "default", "meaning"});
    group = option.group;
    const std::string value = definition.value.empty() ? "" : definition.show();
    page += row({spelled(definition), value.empty() ? "" : "`" + value + "`", definition.help});
  }
  for (const State::Table& table : s.tables) {
    page += "\n## " + table.title + "\n\n" + header(table.rows.front());
    for (std::size_t i = 1; i < table.rows.size(); ++i) page += row(table.rows[i]);
  }
  return page;
}

/// Columns side by side; numbers are not aligned by their last digit.
std::string CommandLine::State::tables_as_text() const {
  std::string text;
  for (const Table& table : tables) {
    std::vector<std::size_t> widths(table.rows.front().size());
    for (const auto& cells : table.rows)
      for (std::size_t i = 0; i < cells.size(); ++i)
        widths[i] = std::max(widths[i], cells[i].size());
    text += "\n" + table.title + ":\n";
    for (const auto& cells : table.rows) {
      std::string line = " ";
      for (std::size_t i = 0; i < cells.size(); ++i) {
        line += " " + cells[i];
        if (i + 1 < cells.size()) line.append(widths[i] - cells[i].size(), ' ');
      }
      text += line + "\n";
    }
  }
  return text;
}

}  // namespace trireme
