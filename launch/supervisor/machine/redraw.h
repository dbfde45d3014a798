// A block of text that is shown again and again: on a terminal in its own place.
#pragma once

#include <string>
#include <string_view>

#include "runtime/core/process/terminal.h"

namespace trireme::supervisor {

/// Returns what takes the cursor to the beginning of `shown`, which was printed last, and clears
/// the screen from there on.
std::string back_over(std::string_view shown, TerminalSize size);

}  // namespace trireme::supervisor
