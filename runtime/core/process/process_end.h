// What a program does last.
//
// Not installed; modules above may include it.
#pragma once

namespace trireme {

/// Writes what is left to write to standard output, and returns the exit code of the process:
/// `code`; but 1, after a line on standard error, where `code` is 0 and anything that this process
/// has printed is lost, as on a full disk.
int exit_code_with_output(int code);

}  // namespace trireme
