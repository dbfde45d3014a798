// What an error says.
#pragma once

#include <exception>
#include <string>

#include "tests/support/record.h"

namespace trireme {

/// The message of the error that f throws, "" if none.
template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const std::exception& error) {
    test::record("error", error.what());
    return error.what();
  }
  return "";
}

}  // namespace trireme
