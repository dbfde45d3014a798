// The text of an exception of any type, to report failures of code outside trireme.
//
// Not installed; modules above may include it.
#pragma once

#include <string>

namespace trireme {

/// Call it in a handler. For an exception that is not a std::exception it returns the name of the
/// type.
std::string current_exception_text();

}  // namespace trireme
