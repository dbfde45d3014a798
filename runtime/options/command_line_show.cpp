// Implements CommandLine (trireme/options/command_line.h). The effective configuration, for people
// and for programs.
#include "runtime/options/command_line_state.h"

namespace trireme {

using namespace options;

std::string CommandLine::effective() const {
  constexpr std::size_t columns = 98;
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
    if (option.group != group || line.size() + entry.size() + 2 > columns) {
      flush();
      line = option.group != group ? option.group + ": " : "    ";
      group = option.group;
    } else {
      line += ", ";
    }
    line += entry;
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

}  // namespace trireme
