// What an error says.
#pragma once

#include <exception>
#include <string>

namespace trireme {

/// The message of the error that f throws, "" if none.
template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

}  // namespace trireme
