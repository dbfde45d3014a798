// Implements CommandLine (trireme/options/command_line.h). The effective configuration, for people
// and for programs.
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

}  // namespace trireme
