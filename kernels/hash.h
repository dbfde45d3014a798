// The check of the arguments of the hash kernels, which their versions share.
#pragma once

#include <cstdint>

#include "trireme/core/error.h"
#include "trireme/kernels/hash.h"

namespace trireme::kernels {

/// Throws: Error that names what does not fit.
inline void check_hash(const HashRanges& p) {
  require(p.list.count >= 0, "hashes of ", p.list.count, " ranges");
  require(reinterpret_cast<std::uintptr_t>(p.words) % sizeof(std::uint64_t) == 0,
          "hashed words must lie at a multiple of 8 bytes");
}

}  // namespace trireme::kernels
