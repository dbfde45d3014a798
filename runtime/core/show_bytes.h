// Sizes of memory and files for people.
//
// Not installed; modules above may include it.
#pragma once

#include <string>

#include "trireme/core/dtype.h"

namespace trireme {

/// 1023 -> "1023 B", 1536 -> "1.5 KiB", 1610612736 -> "1.50 GiB": one decimal up to MiB, two from
/// GiB on.
std::string show_bytes(Index bytes);

}  // namespace trireme
