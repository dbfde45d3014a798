// Implements CommandLine (trireme/options/command_line.h). The effective configuration, for people
// and for programs.
#include <algorithm>

#include "runtime/options/command_line_state.h"

namespace trireme {

using namespace options;

std::string CommandLine::effective(int columns) const {
  std::string all, line, group;
  const auto flush = [&] {
    if (!line.empty()) all += (all.empty() ? "" : "\n") + line;
    line.clear();
  };
  for (const State::Option& option : state_->options) {
    const std::string value = option.definition.show();
    const std::string entry = option.name.substr(2) + " " + (value.empty() ? "-" : value) +
                              (option.given   ? "*"
                               : option.taken ? "+"
                                              : "");
    const auto fits = [&](std::string_view before) {
      return std::ssize(line) + std::ssize(before) + std::ssize(entry) <= columns;
    };
    const bool begins = option.group != group;
    if (begins) {
      flush();
      group = option.group;
      line = group + ":";
    }
    if (!fits(begins ? " " : ", ")) {
      flush();
      line = "    " + entry;
    } else {
      line += (begins ? " " : ", ") + entry;
    }
  }
  flush();
  return all;
}

KeyValues CommandLine::configuration() const {
  KeyValues all;
  for (const State::Option& option : state_->options)
    all.emplace_back(option.name, option.definition.show());
  return all;
}

KeyValues CommandLine::common() const {
  KeyValues all;
  for (const State::Option& option : state_->options)
    if (!option.may_differ) all.emplace_back(option.name, option.definition.show());
  return all;
}

std::vector<std::string> CommandLine::names() const {
  std::vector<std::string> all;
  for (const State::Option& option : state_->options) all.push_back(option.name);
  return all;
}

std::vector<const OptionDefinition*> CommandLine::options() const {
  std::vector<const OptionDefinition*> all;
  for (const State::Option& option : state_->options) all.push_back(&option.definition);
  return all;
}

const OptionDefinition* CommandLine::find(const std::string& name) const {
  for (const State::Option& option : state_->options)
    if (option.definition.is_called(name)) return &option.definition;
  return nullptr;
}

namespace {

/// Endings of the files that an option reads, by what help shows for its value; empty: none.
std::vector<std::string> endings_of_inputs(const std::string& shown) {
  if (shown.find("PREFIX") != std::string::npos) return {".bin", ".idx", ".json"};
  for (const char* of_files : {"FILE", "DIR", "PATH"})
    if (shown.find(of_files) != std::string::npos) return {""};
  return {};
}

}  // namespace

std::vector<CommandLine::NamedFile> CommandLine::files() const {
  std::vector<NamedFile> all;
  for (const State::Option& option : state_->options) {
    const bool written = !option.endings.empty();
    const std::vector<std::string> endings =
        written ? option.endings : endings_of_inputs(option.definition.value);
    std::vector<std::string> values = option.values;
    if (values.empty()) values = {option.definition.show()};
    for (const std::string& value : values)
      for (const std::string& ending : endings)
        if (!value.empty() && value != "-")
          all.push_back({option.name, value, value + ending, written});
  }
  return all;
}

// The options as a page of Markdown, and the tables below them.

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
