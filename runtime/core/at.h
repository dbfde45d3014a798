// at: an index of ours as the standard library wants it.
// Not installed; modules above may include it.
#pragma once

#include <cstddef>

#include "trireme/core/dtype.h"

namespace trireme {

/// i, which is not negative: x[at(i)].
constexpr std::size_t at(Index i) { return static_cast<std::size_t>(i); }

}  // namespace trireme
