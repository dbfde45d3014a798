#include "runtime/options/known_options.h"

namespace trireme {

KnownOptions::KnownOptions() : command_("", "") {
  declare_options(command_, options_);
  declare_gpt_options(command_, options_, gpt_);
}

bool KnownOptions::has(const std::string& name, OptionUse any) const {
  const OptionDefinition* option = find(name);
  return option != nullptr && option->has(any);
}

std::vector<std::string> KnownOptions::without(
    const std::vector<std::string>& words,
    const std::function<bool(const std::string& name)>& leaves_out) const {
  std::vector<std::string> kept;
  for (std::size_t i = 0; i < words.size();) {
    const std::string& word = words[i++];
    if (!leaves_out(name_in(word))) {
      kept.push_back(word);
      continue;
    }
    const OptionDefinition* option = find(word);  // null with "=VALUE" as well
    std::size_t values = word != name_in(word) || (option != nullptr && !option->takes_value()) ? 0
                         : option != nullptr && !option->list                                   ? 1
                                                              : words.size();
    for (; values > 0 && i < words.size() && !words[i].starts_with("--"); --values) ++i;
  }
  return kept;
}

std::string name_in(const std::string& word) { return word.substr(0, word.find('=')); }

}  // namespace trireme
