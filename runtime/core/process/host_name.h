// The name of this machine.
//
// Not installed; modules above may include it.
#pragma once

#include <string>

namespace trireme {

/// Returns the kernel's host name: the same for all processes of a node. Throws: Error.
std::string host_name();

}  // namespace trireme
