// All values of an enum with their names, from one list: the switch in its name().
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace trireme {

/// The enumerators of E, which count up from 0, each with its name(). name() is a switch over all
/// of them without a default, so that the compiler finds a missing one; past the last value it
/// returns "".
template <class E>
std::vector<std::pair<std::string, E>> named_values() {
  std::vector<std::pair<std::string, E>> values;
  for (int i = 0; *name(static_cast<E>(i)) != '\0'; ++i)
    values.emplace_back(name(static_cast<E>(i)), static_cast<E>(i));
  return values;
}

}  // namespace trireme
