// The options of training programs, for those who see only their words, or what was saved of them.
// Options of a program's own are unknown here.
//
// Not installed; modules above may include it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "trireme/options/gpt_options.h"

namespace trireme {

class KnownOptions {
 public:
  KnownOptions();

  /// By any of its names; null: no such option is known.
  const OptionDefinition* find(const std::string& name) const { return command_.find(name); }
  bool has(const std::string& name, OptionUse any) const;
  const CommandLine& command() const { return command_; }

  /// `words` without options of which `leaves_out` holds (for "--save"), and without their values.
  /// An option that is not known has all words up to the next option as values.
  std::vector<std::string> without(
      const std::vector<std::string>& words,
      const std::function<bool(const std::string& name)>& leaves_out) const;

 private:
  Options options_;
  GptOptions gpt_;
  CommandLine command_;
};

/// "--save" of "--save=DIR".
std::string name_in(const std::string& word);

}  // namespace trireme
