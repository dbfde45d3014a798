// The terminal that shows stdout to a person.
//
// Not installed; modules above may include it.
#pragma once

namespace trireme {

struct TerminalSize {
  int columns = 0, rows = 0;
};
/// Its size now, or zeros: stdout is shown on none. It must be the parent's too: mpirun gives its
/// ranks a terminal even where it writes into a file, and one without a size. Allocates nothing.
TerminalSize terminal_size();
int terminal_columns();

/// Columns for lines of text on stdout: those of the terminal, at most 100; 80 without one.
int columns_of_text();

}  // namespace trireme
