// Programs that are installed beside trireme.
#pragma once

#include <string>

namespace trireme {

/// The path of a program of trireme's, beside this one. Throws: Error that says how to get it.
std::string program_of_trireme(const std::string& name);

}  // namespace trireme
