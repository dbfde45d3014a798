// Whether stdout is shown to a person.
//
// Not installed; modules above may include it.
#pragma once

namespace trireme {

/// True where stdout is a terminal, and the parent's too: mpirun gives its ranks a terminal even
/// when its own output goes into a file.
bool stdout_is_terminal();

}  // namespace trireme
