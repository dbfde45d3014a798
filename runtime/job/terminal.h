// The terminal that shows stdout to a person.
//
// Not installed; modules above may include it.
#pragma once

namespace trireme {

/// Its columns now, or 0: stdout is shown on none. It must be the parent's too: mpirun gives its
/// ranks a terminal even where it writes into a file, and one without a size. Allocates nothing.
int terminal_columns();

}  // namespace trireme
