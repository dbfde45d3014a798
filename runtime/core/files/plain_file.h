// Opens what is expected to be a plain file. Opening a pipe with its name could wait without
// end, and a directory or a device would fail at a later call that does not say what it is.
//
// Not installed; modules above may include it.
#pragma once

#include <string>

#include <sys/types.h>

namespace trireme {

/// Returns a descriptor as open(2), or -1 and errno. Throws: Error "PATH: is a pipe, but a file is
/// needed here", where something else than a plain file has the name.
int open_plain_file(const std::string& path, int flags, mode_t mode = 0666);

/// Returns what has this name, such as "a pipe"; "": a plain file or nothing.
std::string what_is_no_plain_file(const std::string& path);

}  // namespace trireme
