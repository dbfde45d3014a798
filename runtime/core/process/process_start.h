// What a program does before it opens its first file.
//
// Not installed; modules above may include it.
#pragma once

namespace trireme {

/// Opens /dev/null in place of each standard stream that is closed: otherwise the next file that is
/// opened takes its number and gets what is printed. Raises the limit of open files (a data source
/// keeps two) to what this user may have. Ignores SIGXFSZ: a write beyond the limit of file sizes
/// is then an error, as on a full disk. Does not ignore SIGCHLD, also where the parent did: the
/// status of a child could then not be asked for. Throws: Error when the system refuses.
void prepare_process();

// What a program does last.

/// Writes what is left to write to standard output, and returns the exit code of the process:
/// `code`; but 1, after a line on standard error, where `code` is 0 and anything that this process
/// has printed is lost, as on a full disk.
int exit_code_with_output(int code);

}  // namespace trireme
