// The name of this machine.
//
// Not installed; modules above may include it.
#pragma once

#include <string>

namespace trireme {

/// As the kernel has it: the same for all processes of a node. Throws: Error.
std::string host_name();

}  // namespace trireme
