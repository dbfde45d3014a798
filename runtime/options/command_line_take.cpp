// Implements CommandLine::take and choose (trireme/options/command_line.h).
// Options of the model that come from a checkpoint, or from files of a model; and options that the
// program chooses.
#include <map>

#include "runtime/options/command_line_state.h"

namespace trireme {

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
