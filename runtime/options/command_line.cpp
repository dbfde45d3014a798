// The only file that uses CLI11: it splits the command line and lays out help. Types, ranges and
// suggestions are ours, because CLI11 stops at the first mistake.
#include "trireme/options/command_line.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include <CLI/CLI.hpp>

#include "trireme/core/version.h"

#include "runtime/options/command_line_state.h"
#include "runtime/options/config_file.h"
#include "runtime/options/foreign_names.h"
#include "runtime/options/option_values.h"

namespace trireme {

using namespace options;

namespace {

constexpr int help_name_width = 34;
constexpr int most_values = 1 << 20;  // of a list: more than a command line can hold

constexpr std::size_t most_config_bytes = std::size_t{1} << 20;
constexpr std::size_t most_config_problems = 20;  // that are listed

std::string joined(const std::vector<std::string>& words) {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : " ") + word;
  return all;
}

/// Throws: Error when a list, or something that is no text, is not what the option takes.
void check_form(const OptionDefinition& definition, const Written& given) {
  const bool in_file = !given.origin.empty();
  require(definition.list || in_file || given.values.size() == 1, "given ", given.values.size(),
          " times, keep one");
  require(definition.list || !given.list, "takes one value, not a list");
  require(!definition.text || !in_file || given.text, "is a text, which must be quoted: \"",
          shortened(given.values.front()), "\"");
}

/// " [1]": the default, if the help text does not mention it.
std::string shown_default(const OptionDefinition& definition) {
  const bool in_help =
      definition.value.empty() || definition.help.find("default") != std::string::npos;
  const std::string value = in_help ? "" : definition.show();
  return value.empty() ? "" : " [" + value + "]";
}

/// A file of a size that a person writes.
std::optional<std::string> read_text(const std::string& path, Problems& problems) {
  std::error_code ignored;
  std::string text(most_config_bytes + 1, '\0');
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  const int opened = errno;
  const auto refused = [&](const auto&... why) {
    problems.add("--config ", path, ": ", why...);
    return std::nullopt;
  };
  if (std::filesystem::is_directory(path, ignored))
    return refused("is a directory; a TOML file is needed");
  if (!file) return refused("cannot be read: ", std::strerror(opened));
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return refused("cannot be read");
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > most_config_bytes)
    return refused("has more than ", show_size(most_config_bytes),
                   " bytes; is it a configuration?");
  return text;
}

/// Positionals are mandatory. CLI11 would show them in brackets, because it is not asked to check
/// it.
class HelpFormatter final : public CLI::Formatter {
 public:
  std::string make_option_usage(const CLI::Option* option) const override {
    return make_option_name(option, true);
  }
};

}  // namespace

/// Declarations alone are many and quick: only what is parsed or shown needs an App.
std::unique_ptr<CLI::App> CommandLine::State::make_app() const {
  auto app = std::make_unique<CLI::App>(description, program);
  app->set_help_flag();
  app->add_flag("-h,--help")->description("print this and stop")->group(general_group);
  app->add_flag("--version")
      ->description("print the version of trireme and stop")
      ->group(general_group);
  app->allow_extras();
  const auto formatter = std::make_shared<HelpFormatter>();
  formatter->column_width(help_name_width);
  app->formatter(formatter);
  for (const Option& option : options) {
    // Names alone: the overloads that take a second string bind it as the option's variable.
    const OptionDefinition& definition = option.definition;
    const bool named = definition.names[0] == '-';
    CLI::Option* made = definition.takes_value()
                            ? app->add_option(definition.names)
                                  ->expected(named ? 0 : 1, definition.list ? most_values : 1)
                                  ->type_name(named ? definition.value : "")
                            : app->add_flag(definition.names);
    made->description(option.meaning)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->group(option.group);
  }
  return app;
}

std::vector<std::string> CommandLine::State::all_names() const {
  std::vector<std::string> all;
  for (const Option& option : options)
    for (const std::string& name : option.definition.all_names())
      if (name.starts_with("--")) all.push_back(name);
  return all;
}

std::string CommandLine::State::suggestion(const std::string& unknown) const {
  if (const std::string answer = foreign_answer(unknown); !answer.empty()) return "; " + answer;
  const std::string near = nearest(unknown, all_names());
  return near.empty() ? "; --help lists all" : "; did you mean " + near + "?";
}

CommandLine::CommandLine(const std::string& program, const std::string& description)
    : state_(std::make_unique<State>(State{.program = program, .description = description})) {}
CommandLine::~CommandLine() = default;

void CommandLine::group(const std::string& title, OptionUse uses) {
  state_->group = title;
  state_->uses_of_group = uses;
}

void CommandLine::next(OptionTraits traits) { state_->next = std::move(traits); }

void CommandLine::add(OptionDefinition definition) {
  definition.traits = std::exchange(state_->next, {});
  definition.traits.uses = definition.traits.uses | state_->uses_of_group;
  std::string name = definition.canonical_name();
  std::string meaning = definition.help + shown_default(definition);
  state_->options.push_back(
      {std::move(definition), std::move(name), state_->group, std::move(meaning)});
}

std::vector<std::string> OptionDefinition::all_names() const { return split_at_commas(names); }

bool OptionDefinition::is_called(const std::string& name) const {
  const std::vector<std::string> all = all_names();
  return std::find(all.begin(), all.end(), name) != all.end();
}

void CommandLine::table(const std::string& title,
                        const std::vector<std::vector<std::string>>& rows) {
  state_->tables.push_back({title, rows});
}

void CommandLine::positional(const std::string& name, std::string& value, const std::string& help) {
  text(name, value, "TEXT", help);
}

void CommandLine::config_file() {
  state_->uses_of_group = OptionUse::none;
  text("--config", state_->config, "FILE",
       "TOML file with any of these options; the command line takes precedence");
  may_differ("--config");  // what is in it may not
}

void CommandLine::may_differ(const std::string& name) { state_->find(name).may_differ = true; }

void CommandLine::writes(const std::string& name, const std::vector<std::string>& endings) {
  state_->find(name).endings = endings;
}

void CommandLine::from_checkpoint(const std::string& name, FromCheckpoint rule) {
  state_->find(name).from_checkpoint = rule;
}

CommandLine::State::Option& CommandLine::State::find(const std::string& name) {
  const auto option =
      std::find_if(options.begin(), options.end(), [&](const Option& o) { return o.name == name; });
  require(option != options.end(), "no option ", name, " is declared");
  return *option;
}

std::string CommandLine::State::foreign_answer(const std::string& unknown) const {
  const ForeignName* foreign = find_foreign_name(unknown);
  if (foreign == nullptr) return "";
  const std::vector<std::string> declared = all_names();
  for (const std::string& name : options_in(foreign->answer))
    if (std::find(declared.begin(), declared.end(), name) == declared.end()) return "";
  return foreign->missing ? str(foreign->answer, " (", page_of_missing, ")") : foreign->answer;
}

/// What CLI11 split, and what it could not place.
void CommandLine::State::read_command_line(const CLI::App& app, Problems& problems,
                                           std::map<std::string, Written>& written) {
  const std::vector<const CLI::Option*> parsed = app.get_options();
  const std::size_t others = parsed.size() - options.size();  // --help, --version
  for (std::size_t i = 0; i < options.size(); ++i)
    if (const CLI::Option& one = *parsed[others + i]; one.count() > 0)
      written[options[i].name].values = one.results();
  int values = 0;  // so many words after an unknown option are taken for its values
  for (const std::string& word : app.remaining()) {
    const bool is_option = word.size() > 1 && word[0] == '-';
    has_unknown = has_unknown || is_option;
    if (is_option)
      problems.add("unknown option ", shortened(word), suggestion(word.substr(0, word.find('='))));
    else if (--values < 0)
      problems.add("unexpected argument '", shortened(word), "'; options begin with --");
    if (!is_option) continue;
    const ForeignName* foreign = find_foreign_name(word);
    values = foreign == nullptr ? 1 : foreign->values;
  }
}

/// One line of a file. Returns what is wrong with it, or ""; in full when it is `listed`.
std::string CommandLine::State::read_line(const ConfigLine& line, bool listed,
                                          std::map<std::string, Written>& written,
                                          std::map<std::string, const ConfigLine*>& seen) {
  if (!line.mistake.empty()) return line.mistake;
  const std::string key = shortened(line.key);
  const auto option = std::find_if(options.begin(), options.end(), [&](const Option& o) {
    return o.definition.is_called("--" + line.key);
  });
  if (option == options.end()) {
    has_unknown = true;
    return str("unknown option ", key, listed ? suggestion("--" + lower_case(line.key)) : "",
               lower_case(line.key) == line.key ? "" : " Keys are lower case");
  }
  if (option->name == "--config") return "config: one file cannot name another";
  const auto [first, is_new] = seen.emplace(option->name, &line);
  if (!is_new && first->second->key == line.key)
    return str(key, " is given twice, first on line ", first->second->line, "; keep one");
  if (!is_new)
    return str(key, " and ", first->second->key, " of line ", first->second->line,
               " are one option, given twice; keep one");
  if (!written.contains(option->name))
    written[option->name] = {line.values, str(" (in ", config, ":", line.line, ")"), line.list,
                             line.quoted};
  return "";
}

void CommandLine::State::read_file(Problems& problems, std::map<std::string, Written>& written) {
  const std::optional<std::string> text = read_text(config, problems);
  if (!text) return;
  std::map<std::string, const ConfigLine*> seen;
  const std::vector<ConfigLine> lines = read_config(*text);
  std::size_t wrong = 0;
  for (const ConfigLine& line : lines) {
    const bool listed = wrong < most_config_problems;
    const std::string mistake = read_line(line, listed, written, seen);
    if (!mistake.empty()) ++wrong;
    if (!mistake.empty() && listed) problems.add(config, ":", line.line, ": ", mistake);
  }
  if (wrong > most_config_problems)
    problems.add(config, ": and ", wrong - most_config_problems, " more problems");
}

std::string CommandLine::State::typed_name(const Option& option) const {
  for (const std::string& letter : option.definition.all_names())
    for (const std::string& word : words)
      if (!letter.starts_with("--") && letter.starts_with('-') && word.starts_with(letter))
        return letter;
  return option.name;
}

void CommandLine::State::apply(Problems& problems, const std::map<std::string, Written>& written) {
  for (Option& option : options) {
    const auto found = written.find(option.name);
    if (found == written.end()) {
      if (option.name[0] != '-') problems.add(option.name, " is missing: ", option.definition.help);
      continue;
    }
    const Written& given = found->second;
    option.given = true;
    if (given.values.empty() || std::count(given.values.begin(), given.values.end(), "") > 0) {
      problems.add(typed_name(option), given.origin, " needs a value: ", option.definition.value);
      continue;
    }
    try {
      check_form(option.definition, given);
      option.definition.set(given.values);
      option.values = given.values;
    } catch (const Error& error) {
      problems.add(typed_name(option), " ", shortened(joined(given.values)), given.origin, ": ",
                   error.what());
    }
  }
}

CommandLine::Outcome CommandLine::parse(int argc, const char* const* argv, Problems& problems) {
  const std::vector<std::string> all(argv + std::min(argc, 1), argv + argc);
  const auto has = [&](const char* word) { return std::count(all.begin(), all.end(), word) > 0; };
  if (has("--help") || has("-h")) return Outcome::help;
  if (has("--version")) return Outcome::version;
  if (has("--help-markdown")) return Outcome::reference;
  state_->words = all;
  std::vector<const char*> words;
  for (int i = 0; i < argc; ++i)
    if (i > 0 && i + 1 < argc && std::string(argv[i]) == "=")
      problems.add("write ", argv[i - 1], " ", argv[i + 1], ", without '='; or ", argv[i - 1], "=",
                   argv[i + 1]);
    else
      words.push_back(argv[i]);
  const std::unique_ptr<CLI::App> app = state_->make_app();
  try {
    app->parse(static_cast<int>(words.size()), words.data());
  } catch (const CLI::Error& error) {
    problems.add(error.what());
    return Outcome::run;
  }
  std::map<std::string, Written> written;
  state_->read_command_line(*app, problems, written);
  if (const auto file = written.find("--config"); file != written.end() &&
                                                  file->second.values.size() == 1 &&
                                                  !file->second.values.front().empty()) {
    state_->config = file->second.values.front();
    state_->read_file(problems, written);
  }
  state_->apply(problems, written);
  return Outcome::run;
}

bool CommandLine::given(const std::string& name) const { return state_->find(name).given; }

bool CommandLine::is_uncertain(const std::string& name) const {
  const State::Option& option = state_->find(name);
  return state_->has_unknown || (option.given && option.values.empty());
}

std::string CommandLine::help() const {
  return state_->make_app()->help() + state_->tables_as_text();
}

std::string CommandLine::text_of(Outcome outcome) const {
  switch (outcome) {
    case Outcome::run:
      return "";
    case Outcome::help:
      return help();
    case Outcome::version:
      return str("trireme ", version(), "\n");
    case Outcome::reference:
      return reference();
  }
  return "";
}

// Options of the model that come from a checkpoint, or from files of a model; and options that the
// program chooses.

using namespace options;

namespace {

using SavedValues = std::map<std::string, std::string>;

/// What the checkpoint says of an option of the model; null: nothing.
const std::string* saved_value(const SavedValues& saved, const std::string& name) {
  const auto found = saved.find(name);
  return found == saved.end() || found->second.empty() ? nullptr : &found->second;
}

}  // namespace

/// Why nothing can be taken, or "".
std::string CommandLine::State::why_not_taken(const SavedValues& saved, const std::string& origin,
                                              const std::string& why) const {
  bool has_model = false;
  for (const Option& option : options)
    if (option.from_checkpoint == FromCheckpoint::always) {
      if (saved_value(saved, option.name) != nullptr) return "";
      has_model = true;
    }
  if (!has_model)
    return why + " has no meaning: no option of this program describes the model; leave it out";
  return why + ": " + origin +
         " does not say with which options its model was made; give them here instead";
}

/// In order of declaration once more: a preset from the checkpoint resets what comes after it.
KeyValues CommandLine::take(const KeyValues& saved, const std::string& origin, Problems& problems,
                            const std::string& why) {
  const SavedValues values(saved.begin(), saved.end());
  if (const std::string none = state_->why_not_taken(values, origin, why); !none.empty()) {
    problems.add(none);
    return {};
  }
  const KeyValues before = configuration();
  for (std::size_t i = 0; i < before.size(); ++i) {
    State::Option& option = state_->options[i];
    const std::string& here = before[i].second;
    const std::string* const value =
        option.from_checkpoint ? saved_value(values, option.name) : nullptr;
    option.taken = value != nullptr && !option.given;
    if (value != nullptr && !option.values.empty() && *value != here &&
        option.from_checkpoint == FromCheckpoint::always)
      problems.add(option.name, " is ", here, " here and ", *value, " in ", origin,
                   ", whose model ", why, " takes; leave one of the two options out");
    if (option.taken) try {
        option.definition.set({*value});
      } catch (const Error& error) {
        problems.add(option.name, " ", *value, " (of ", origin, "): ", error.what());
      }
    if (!option.values.empty()) option.definition.set(option.values);
  }
  KeyValues changed;
  const KeyValues after = configuration();
  for (std::size_t i = 0; i < after.size(); ++i)
    if (state_->options[i].taken && after[i] != before[i]) changed.push_back(after[i]);
  return changed;
}

void CommandLine::choose(const KeyValues& values) {
  for (const auto& [name, value] : values) {
    State::Option& option = state_->find(name);
    if (option.given) continue;
    option.definition.set({value});
    option.taken = true;
  }
}

}  // namespace trireme
