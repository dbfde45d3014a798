// Names that other programs give to options, and what to write here instead.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace trireme::options {

struct ForeignName {
  const char* names;   // lower case, with '-' for '_', without dashes in front; separated by spaces
  const char* answer;  // continues "unknown option --NAME; "
  int values = 1;      // at most so many words follow the name
  bool missing = false;  // a thing that trireme does not do: page_of_missing tells more
};

inline constexpr const char* page_of_missing = "docs/reference/what_is_missing.md";

/// All that are known.
std::span<const ForeignName> foreign_names();

/// The entry of an option as it was written: "--n_layer", "--training.steps". Null: none.
const ForeignName* find_foreign_name(const std::string& word);

/// The options that an answer names: "--tp" of "use --tp N".
std::vector<std::string> options_in(const std::string& answer);

}  // namespace trireme::options
