// at: converts an Index to the index type of the standard library.
//
// Not installed; modules above may include it.
#pragma once

#include <cstddef>

#include "trireme/core/dtype.h"

namespace trireme {

/// i, which is not negative: x[at(i)].
constexpr std::size_t at(Index i) { return static_cast<std::size_t>(i); }

}  // namespace trireme
