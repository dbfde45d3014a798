// Which command of `trireme` the words of its command line name.
#pragma once

#include <iosfwd>
#include <vector>

#include "launch/commands.h"

namespace trireme {

/// Runs the command that the first one or two words name, and returns its exit code. Prints usage
/// for --help, and the version for --version, to `out`; what is wrong with the words, and the
/// nearest command, to `errors`.
int dispatch(const std::vector<Subcommand>& commands, int argc, char** argv, std::ostream& out,
             std::ostream& errors);

}  // namespace trireme
