// The version of trireme.
#pragma once

namespace trireme {

/// Returns the version of the library that this program is linked with: "0.2.0".
const char* version();

}  // namespace trireme
