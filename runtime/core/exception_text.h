// What an exception of any type says, for those who report failures of code that is not trireme's
// own.
// Not installed; modules above may include it.
#pragma once

#include <string>

namespace trireme {

/// To be called in a handler. An exception that is no std::exception has the name of its type.
std::string current_exception_text();

}  // namespace trireme
