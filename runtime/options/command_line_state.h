// What a CommandLine holds. Only command_line.cpp uses CLI11.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trireme/options/command_line.h"

namespace CLI {
class App;
}  // namespace CLI

namespace trireme::options {

struct ConfigLine;

/// Values of one option with where they were written, for messages.
struct Written {
  std::vector<std::string> values;
  std::string origin;               // "", or " (in FILE:LINE)"
  bool list = false, text = false;  // how a file wrote them: in brackets; in quotes
};

}  // namespace trireme::options

namespace trireme {

struct CommandLine::State {
  struct Option {
    OptionDefinition definition;
    std::string name, group;
    std::string meaning;  // what help says: of the default, too
    bool given = false;
    bool may_differ = false;                // whether ranks may have different values
    std::vector<std::string> endings = {};  // endings of files that it writes, if any
    std::optional<FromCheckpoint> from_checkpoint = {};
    bool taken = false;                    // from a checkpoint, or chosen
    std::vector<std::string> values = {};  // that were given, when they are legal
  };

  struct Table {
    std::string title;
    std::vector<std::vector<std::string>> rows;
  };

  static constexpr const char* general_group = "General";

  /// For one command line, or for help.
  std::unique_ptr<CLI::App> make_app() const;
  std::vector<std::string> all_names() const;
  /// The answer to a name of another program; "" when it names options that this program lacks.
  std::string foreign_answer(const std::string& unknown) const;
  std::string suggestion(const std::string& unknown) const;
  void read_command_line(const CLI::App& app, Problems& problems,
                         std::map<std::string, options::Written>& written);
  void read_file(Problems& problems, std::map<std::string, options::Written>& written);
  std::string read_line(const options::ConfigLine& line, bool listed,
                        std::map<std::string, options::Written>& written,
                        std::map<std::string, const options::ConfigLine*>& seen);
  void apply(Problems& problems, const std::map<std::string, options::Written>& written);
  std::string why_not_taken(const std::map<std::string, std::string>& saved,
                            const std::string& origin, const std::string& why) const;
  /// The tables below the options, for help.
  std::string tables_as_text() const;
  /// The canonical name, but "-n" where the command line has that.
  std::string typed_name(const Option& option) const;
  /// Throws: Error when no such option is declared.
  Option& find(const std::string& name);

  const std::string program, description;
  std::string group = general_group;
  OptionUse uses_of_group = OptionUse::none;
  OptionTraits next = {};  // traits of the option that is declared next
  std::string config = {};
  std::vector<std::string> words = {};  // what the command line has
  bool has_unknown = false;             // an option is not declared
  std::vector<Option> options = {};
  std::vector<Table> tables = {};
};

}  // namespace trireme
