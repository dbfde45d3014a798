// CommandLine: options with their names, legal values and help in one place. Parsing never stops at
// the first mistake: every unknown option, bad type and illegal value goes to Problems. Values are
// set in order of declaration, whatever the order on the command line, so options declared after a
// preset refine it.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "trireme/core/dtype.h"
#include "trireme/core/key_values.h"
#include "trireme/core/named_values.h"
#include "trireme/options/problems.h"

namespace trireme {

/// Legal whole numbers, both ends included.
struct Whole {
  Index least = std::numeric_limits<Index>::min();
  Index most = std::numeric_limits<Index>::max();
};
/// Upper limit of all counts; sums and small multiples of it fit an Index.
constexpr Index most_count = Index{1} << 40;
inline Whole at_least(Index least) { return {least, most_count}; }

/// Legal real numbers: least <= x <= most; `open_*` excludes that end. `fp32`: the number is used
/// as a float, so one that a float can only hold as 0 or infinity is illegal too.
struct Real {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool open_least = false, open_most = false;
  bool fp32 = false;
};

/// What those who start jobs, plan them or compare them have to know of an option. An option may
/// have several uses, or none.
enum class OptionUse : std::uint8_t {
  none = 0,
  /// Says where a job begins, what it saves, and what it prints or writes: steps compute the same.
  beside = 1,
  /// Says how many steps there are, and what is done in which of them.
  steps = 2,
  /// Is read only where something is trained.
  training = 4,
  /// Is that of a run, whatever its layout: `trireme run` reads it.
  run = 8,
  /// Says what a run begins with, and counts no more once the run has saved.
  start = 16,
  /// Divides work among ranks of unequal speed.
  shares = 32,
  /// Takes the model from files.
  model_files = 64,
  /// Lets the job choose its layout.
  plan = 128,
};
constexpr OptionUse operator|(OptionUse a, OptionUse b) {
  return static_cast<OptionUse>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
constexpr bool have_common(OptionUse a, OptionUse b) {
  return (static_cast<unsigned>(a) & static_cast<unsigned>(b)) != 0;
}

struct Options;  // options/options.h

/// What an option is to those who do not read its value.
struct OptionTraits {
  OptionUse uses = OptionUse::none;
  std::string layout = {};  // its word in a layout of `trireme plan`: "tp"; empty: it has none
  /// Why it has no effect on so many ranks; empty: it has one.
  std::function<std::string(const Options&, Index ranks)> why_idle = {};
};

/// One option of any kind. The methods of CommandLine make the usual ones.
struct OptionDefinition {
  std::string names;  // "--tensor-model-parallel-size,--tp", the canonical name first
  std::string value;  // what help shows for the value: "N"; empty: a flag
  std::string help;
  bool list = false;  // takes one or more values
  /// Sets the value. Throws: Error with the reason only ("expected a whole number >= 1").
  std::function<void(const std::vector<std::string>&)> set;
  /// The effective value, as it would be written.
  std::function<std::string()> show;
  bool text = false;  // any text: quoted in a file
  OptionTraits traits = {};

  bool has(OptionUse any) const { return have_common(traits.uses, any); }
  bool takes_value() const { return !value.empty(); }
  std::string canonical_name() const { return names.substr(0, names.find(',')); }
  std::vector<std::string> all_names() const;
  bool is_called(const std::string& name) const;
};

class CommandLine {
 public:
  CommandLine(const std::string& program, const std::string& description);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  /// Help lists the options declared from now on under this title. All of them have these uses.
  void group(const std::string& title, OptionUse uses = OptionUse::none);
  /// Sets the traits of the option that is declared next; it has the uses of its group as well.
  void next(OptionTraits traits);
  // The variable holds the default when declared and the effective value after parse(). It must
  // outlive this object. An illegal default means "not set" and is not shown.
  void whole(const std::string& names, Index& value, Whole legal, const std::string& help);
  void real(const std::string& names, double& value, Real legal, const std::string& help);
  /// Numbers separated by commas: "3,2,1". Empty: not set.
  void whole_list(const std::string& names, std::vector<Index>& values, Whole legal,
                  const std::string& help);
  void real_list(const std::string& names, std::vector<double>& values, Real legal,
                 const std::string& help);
  /// Bytes: "512M", "2G"; K, M, G and T are powers of 1024.
  void size(const std::string& names, Index& value, Index least, const std::string& help);
  void flag(const std::string& names, bool& value, const std::string& help);
  /// A flag that switches `value` off.
  void flag_off(const std::string& names, bool& value, const std::string& help);
  void text(const std::string& names, std::string& value, const std::string& metavar,
            const std::string& help);
  void list(const std::string& names, std::vector<std::string>& values, const std::string& metavar,
            const std::string& help);
  template <class E>
  void choice(const std::string& names, E& value,
              const std::vector<std::pair<std::string, E>>& legal, const std::string& help);
  /// All values of E are legal, by name(E).
  template <class E>
  void choice(const std::string& names, E& value, const std::string& help) {
    choice(names, value, named_values<E>(), help);
  }
  /// A mandatory positional argument: "PREFIX".
  void positional(const std::string& name, std::string& value, const std::string& help);
  void add(OptionDefinition definition);
  /// A table below the options in help and in reference(); the first row has the titles of columns.
  void table(const std::string& title, const std::vector<std::vector<std::string>>& rows);
  /// Declares --config FILE: a TOML file that holds any of the options declared here.
  void config_file();
  /// Allows ranks different values of this option (canonical name), because it describes their
  /// node.
  void may_differ(const std::string& name);

  /// Declares that the program writes the file that an option (canonical name) names, or those
  /// whose names are its value and one of `endings`.
  void writes(const std::string& name, const std::vector<std::string>& endings = {""});

  /// What --use-checkpoint-args does with an option of the model. `always`: another value means
  /// another model and is rejected; `unless_given`: another value is legal.
  enum class FromCheckpoint { always, unless_given };
  /// Declares that the option (canonical name) describes the model.
  void from_checkpoint(const std::string& name, FromCheckpoint rule);

  enum class Outcome { run, help, version, reference };
  /// The command line wins over --config. With --help, --version or --help-markdown nothing else is
  /// checked.
  Outcome parse(int argc, const char* const* argv, Problems& problems);

  /// After parse(): sets the options that describe the model to the values of the job that wrote
  /// the checkpoint, or of other files. `origin`: "step 10 of run"; `why`: the option that asks for
  /// it. Returns those that changed their value.
  KeyValues take(const KeyValues& saved, const std::string& origin, Problems& problems,
                 const std::string& why = "--use-checkpoint-args");

  /// After parse(): sets these options (by canonical name), but for those that were given. Throws:
  /// Error when a value is illegal.
  void choose(const KeyValues& values);

  /// Was this option (canonical name) given, on the command line or in the file?
  bool given(const std::string& name) const;
  /// May this option (canonical name) be meant to have another value? True when its value was
  /// refused, or an option that is not declared was given: checks of it would only confuse.
  bool is_uncertain(const std::string& name) const;
  std::string help() const;
  /// What the program prints instead of running: its help, "trireme 0.2.0", or reference().
  std::string text_of(Outcome outcome) const;
  /// Every option with its values, default and meaning, as a page of Markdown: --help-markdown.
  std::string reference() const;
  /// The effective configuration, a line (or more) per group; `*` marks what was given, `+` what
  /// came from a checkpoint, or was chosen. Only a value that is longer makes a line longer than
  /// `columns`.
  std::string effective(int columns = 80) const;
  /// Returns the configuration for programs: every option, in order of declaration.
  KeyValues configuration() const;
  /// Returns the options that must be the same on all ranks: run() compares them.
  KeyValues common() const;
  /// Returns the canonical names in order of declaration.
  std::vector<std::string> names() const;
  /// All options in order of declaration.
  std::vector<const OptionDefinition*> options() const;
  /// The option with this name, canonical or not; null: none is declared.
  const OptionDefinition* find(const std::string& name) const;
  struct NamedFile {
    std::string option, value, path;
    bool written = false;
  };
  /// The files that options name by their effective values: of those that write, and of all others
  /// whose help has FILE, DIR, PATH or PREFIX (of token files) for the value.
  std::vector<NamedFile> files() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The candidate nearest to a mistyped word, or "" when none is near.
std::string nearest(const std::string& word, const std::vector<std::string>& candidates);

/// The choice that a mistyped word means: what other programs call so, or the nearest.
std::string meant_choice(const std::string& word, const std::vector<std::string>& legal);

template <class E>
void CommandLine::choice(const std::string& names, E& value,
                         const std::vector<std::pair<std::string, E>>& legal,
                         const std::string& help) {
  OptionDefinition option{names, "", help, false, nullptr, nullptr, false};
  std::vector<std::string> words;
  for (const auto& [word, meaning] : legal) {
    words.push_back(word);
    option.value += (option.value.empty() ? "{" : ",") + word;
  }
  option.value += "}";
  option.set = [&value, legal, words, shown = option.value](const std::vector<std::string>& given) {
    for (const auto& [word, meaning] : legal)
      if (word == given.front()) {
        value = meaning;
        return;
      }
    const std::string near = meant_choice(given.front(), words);
    throw Error(str("expected one of ", shown, near.empty() ? "" : "; did you mean ", near,
                    near.empty() ? "" : "?"));
  };
  option.show = [&value, legal] {
    for (const auto& [word, meaning] : legal)
      if (meaning == value) return word;
    return std::string("?");
  };
  add(std::move(option));
}

}  // namespace trireme
