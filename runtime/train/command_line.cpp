// The only file that knows CLI11: it splits the command line, lays out help and reads TOML. Types,
// ranges and suggestions are ours, because CLI11 stops at the first mistake.
#include "trireme/train/command_line.h"

#include <algorithm>
#include <fstream>
#include <map>

#include <CLI/CLI.hpp>

#include "runtime/train/option_values.h"

namespace trireme {
namespace {

constexpr int help_name_width = 34;
constexpr int most_values = 10000;  // of a list

/// Values of one option with where they were written, for messages.
struct Written {
  std::vector<std::string> values;
  std::string origin;  // "", or " (in FILE)"
};

std::string joined(const std::vector<std::string>& words) {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : " ") + word;
  return all;
}

/// " [1]": the default, where the help text does not speak of it.
std::string shown_default(const OptionDefinition& definition) {
  const bool told =
      definition.value.empty() || definition.help.find("default") != std::string::npos;
  const std::string value = told ? "" : definition.show();
  return value.empty() ? "" : " [" + value + "]";
}

std::string canonical(const std::string& names) { return names.substr(0, names.find(',')); }

}  // namespace

struct CommandLine::State {
  struct Option {
    OptionDefinition definition;
    std::string name, group;
    CLI::Option* parsed;
    bool given = false;
  };

  State(const std::string& program, const std::string& description) : app(description, program) {
    app.set_help_flag();
    app.add_flag("-h,--help")->description("print this and stop")->group(group);
    app.allow_extras();
    app.get_formatter()->column_width(help_name_width);
  }

  std::vector<std::string> all_names() const {
    std::vector<std::string> all;
    for (const Option& option : options)
      for (const std::string& name : option.parsed->get_lnames()) all.push_back("--" + name);
    return all;
  }
  std::string suggestion(const std::string& unknown) const {
    const std::string near = nearest(unknown, all_names());
    return near.empty() ? "; --help lists all" : "; did you mean " + near + "?";
  }

  void read_command_line(Problems& problems, std::map<std::string, Written>& written) const;
  void read_file(Problems& problems, std::map<std::string, Written>& written) const;
  void apply(Problems& problems, const std::map<std::string, Written>& written);

  std::string group = "General";
  CLI::App app;
  std::string config;
  std::vector<Option> options;
};

CommandLine::CommandLine(const std::string& program, const std::string& description)
    : state_(std::make_unique<State>(program, description)) {}
CommandLine::~CommandLine() = default;

void CommandLine::group(const std::string& title) { state_->group = title; }

void CommandLine::add(OptionDefinition definition) {
  CLI::App& app = state_->app;
  // Names alone: the overloads that take a second string bind it as the option's variable.
  CLI::Option* parsed = nullptr;
  if (definition.value.empty())
    parsed = app.add_flag(definition.names);
  else
    parsed = app.add_option(definition.names)
                 ->expected(definition.names[0] == '-' ? 0 : 1, definition.list ? most_values : 1)
                 ->type_name(definition.value);
  parsed->description(definition.help + shown_default(definition))
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group(state_->group);
  std::string name = canonical(definition.names);
  state_->options.push_back({std::move(definition), std::move(name), state_->group, parsed});
}

void CommandLine::positional(const std::string& name, std::string& value, const std::string& help) {
  text(name, value, "TEXT", help);
}

void CommandLine::config_file() {
  text("--config", state_->config, "FILE",
       "TOML file with any of these options; the command line wins");
}

/// What CLI11 split, and what it could not place.
void CommandLine::State::read_command_line(Problems& problems,
                                           std::map<std::string, Written>& written) const {
  for (const Option& option : options)
    if (option.parsed->count() > 0) written[option.name] = {option.parsed->results(), ""};
  bool after_unknown = false;  // a word after an unknown option is taken for its value
  for (const std::string& word : app.remaining()) {
    const bool is_option = word.size() > 1 && word[0] == '-';
    if (is_option)
      problems.add("unknown option ", word, suggestion(word.substr(0, word.find('='))));
    else if (!after_unknown)
      problems.add("unexpected argument '", word, "'; options begin with --");
    after_unknown = is_option;
  }
}

void CommandLine::State::read_file(Problems& problems,
                                   std::map<std::string, Written>& written) const {
  std::ifstream file(config);
  if (!file) {
    problems.add("--config ", config, ": cannot be read");
    return;
  }
  std::vector<CLI::ConfigItem> items;
  try {
    items = CLI::ConfigTOML().from_config(file);
  } catch (const CLI::Error& error) {
    problems.add("--config ", config, ": ", error.what());
    return;
  }
  for (const CLI::ConfigItem& item : items) {
    if (item.name == "++" || item.name == "--")
      continue;  // a [section] begins or ends: only for the reader
    const auto option = std::find_if(options.begin(), options.end(), [&](const Option& o) {
      return o.parsed->check_lname(item.name);
    });
    if (option == options.end())
      problems.add("unknown option ", item.name, " (in ", config, ")",
                   suggestion("--" + item.name));
    else if (option->name == "--config")
      problems.add("--config inside ", config, ": one file cannot name another");
    else if (option->parsed->count() == 0)
      written[option->name] = {item.inputs, " (in " + config + ")"};
  }
}

void CommandLine::State::apply(Problems& problems, const std::map<std::string, Written>& written) {
  for (Option& option : options) {
    const auto found = written.find(option.name);
    if (found == written.end()) {
      if (option.name[0] != '-') problems.add(option.name, " is missing: ", option.definition.help);
      continue;
    }
    const auto& [values, origin] = found->second;
    option.given = true;
    if (values.empty() || std::count(values.begin(), values.end(), "") > 0)
      problems.add(option.name, origin, " needs a value: ", option.definition.value);
    else if (values.size() > 1 && !option.definition.list)
      problems.add(option.name, " ", joined(values), origin, ": given ", values.size(),
                   " times, keep one");
    else
      try {
        option.definition.set(values);
      } catch (const Error& error) {
        problems.add(option.name, " ", joined(values), origin, ": ", error.what());
      }
  }
}

CommandLine::Outcome CommandLine::parse(int argc, const char* const* argv, Problems& problems) {
  for (int i = 1; i < argc; ++i)
    if (std::string(argv[i]) == "--help" || std::string(argv[i]) == "-h") return Outcome::help;
  try {
    state_->app.parse(argc, argv);
  } catch (const CLI::Error& error) {
    problems.add(error.what());
    return Outcome::run;
  }
  std::map<std::string, Written> written;
  state_->read_command_line(problems, written);
  if (const auto file = written.find("--config"); file != written.end() &&
                                                  file->second.values.size() == 1 &&
                                                  !file->second.values.front().empty()) {
    state_->config = file->second.values.front();
    state_->read_file(problems, written);
  }
  state_->apply(problems, written);
  return Outcome::run;
}

bool CommandLine::given(const std::string& name) const {
  for (const State::Option& option : state_->options)
    if (option.name == name) return option.given;
  throw Error(str("no option ", name, " is declared"));
}

std::string CommandLine::help() const { return state_->app.help(); }

std::string CommandLine::effective() const {
  constexpr std::size_t columns = 98;
  std::string all, line, group;
  const auto flush = [&] {
    if (!line.empty()) all += (all.empty() ? "" : "\n") + line;
    line.clear();
  };
  for (const State::Option& option : state_->options) {
    const std::string value = option.definition.show();
    const std::string entry =
        option.name.substr(2) + " " + (value.empty() ? "-" : value) + (option.given ? "*" : "");
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

Configuration CommandLine::configuration() const {
  Configuration all;
  for (const State::Option& option : state_->options)
    all.emplace_back(option.name, option.definition.show());
  return all;
}

std::vector<std::string> CommandLine::names() const {
  std::vector<std::string> all;
  for (const State::Option& option : state_->options) all.push_back(option.name);
  return all;
}

}  // namespace trireme
