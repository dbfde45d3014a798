#include "launch/dispatch.h"

#include <algorithm>
#include <ostream>

#include "trireme/core/version.h"

namespace trireme {
namespace {

using Words = std::vector<std::string>;

int exit_code(ExitCode code) { return static_cast<int>(code); }

std::string name_of(const Subcommand& command) {
  return command.words.size() == 1 ? command.words[0] : command.words[0] + ' ' + command.words[1];
}

std::string usage(const std::vector<Subcommand>& commands) {
  std::string text = "Usage: trireme COMMAND [options]; trireme help COMMAND\n\n";
  for (const Subcommand& command : commands)
    text +=
        "  trireme " + name_of(command) + ' ' + command.usage + "\n      " + command.help + '\n';
  return text;
}

/// The command that the words begin with; of `plan` and `plan show` the longer one.
const Subcommand* find(const std::vector<Subcommand>& commands, const Words& words) {
  const Subcommand* found = nullptr;
  for (const Subcommand& command : commands) {
    const bool named = command.words.size() <= words.size() &&
                       std::equal(command.words.begin(), command.words.end(), words.begin());
    if (named && (!found || found->words.size() < command.words.size())) found = &command;
  }
  return found;
}

/// Returns the commands that begin with the first of `words`; all commands where there is none.
std::vector<Subcommand> related(const std::vector<Subcommand>& commands, const Words& words) {
  std::vector<Subcommand> found;
  for (const Subcommand& command : commands)
    if (words.empty() || command.words[0] == words[0]) found.push_back(command);
  return found;
}

/// Returns the second words of the commands that begin with `first`.
Words second_words(const std::vector<Subcommand>& commands, const std::string& first) {
  Words found;
  for (const Subcommand& command : related(commands, {first}))
    if (command.words.size() == 2) found.push_back(command.words[1]);
  return found;
}

/// Why `words` name no command, and which one may be meant.
std::string mistake(const std::vector<Subcommand>& commands, const Words& words) {
  if (words.empty()) return "a command is missing";
  const Words seconds = second_words(commands, words[0]);
  const bool has_second = words.size() > 1 && !words[1].starts_with('-');
  if (!seconds.empty() && !has_second) {
    std::string all;
    for (const std::string& second : seconds) all += (all.empty() ? "" : ", ") + second;
    return "'" + words[0] + "' needs a second word: one of " + all;
  }
  Words single, all;
  for (const Subcommand& command : commands) {
    if (command.words.size() == 1 || !has_second) single.push_back(command.words[0]);
    all.push_back(name_of(command));
  }
  const std::string both = has_second ? words[0] + ' ' + words[1] : words[0];
  std::string unknown = words[0];
  // A command of one word parses the rest itself.
  std::string near = seconds.empty() ? nearest(words[0], single) : "";
  if (near.empty()) {
    unknown = both;
    near = nearest(both, all);
  }
  return "unknown command '" + unknown + "'" + (near.empty() ? "" : "; did you mean " + near + "?");
}

/// "help plan" as "plan --help".
int dispatch_help(const std::vector<Subcommand>& commands, Words words, std::ostream& out,
                  std::ostream& errors) {
  words.front() = "trireme";
  words.emplace_back("--help");
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  return dispatch(commands, static_cast<int>(pointers.size()), pointers.data(), out, errors);
}

}  // namespace

int dispatch(const std::vector<Subcommand>& commands, int argc, char** argv, std::ostream& out,
             std::ostream& errors) {
  const Words words(argv + std::min(argc, 1), argv + argc);
  if (!words.empty() && words[0] == "help") return dispatch_help(commands, words, out, errors);
  if (const Subcommand* command = find(commands, words)) {
    const int before = static_cast<int>(command->words.size());
    return command->run(argc - before, argv + before);
  }
  const auto asks_for = [&](const char* option) {
    const auto end = words.begin() + std::min<std::ptrdiff_t>(std::ssize(words), 2);
    return std::find(words.begin(), end, option) != end;
  };
  const std::vector<Subcommand> meant = related(commands, words);
  const bool begins_well = words.empty() || words[0].starts_with('-') || !meant.empty();
  if (begins_well && (asks_for("--help") || asks_for("-h"))) {
    out << usage(meant.empty() ? commands : meant);
    return exit_code(ExitCode::success);
  }
  if (begins_well && asks_for("--version")) {
    out << "trireme " << version() << '\n';
    return exit_code(ExitCode::success);
  }
  errors << "trireme: " << mistake(commands, words) << '\n'
         << (meant.empty() ? "`trireme --help` lists all commands\n" : '\n' + usage(meant));
  return exit_code(ExitCode::configuration);
}

}  // namespace trireme
