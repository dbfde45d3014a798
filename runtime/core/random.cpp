#include "trireme/core/random.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace trireme {

Random random_for(std::uint64_t seed, std::string_view name, std::uint64_t step) {
  const std::uint64_t named = XXH3_64bits_withSeed(name.data(), name.size(), seed);
  const Philox p = philox(step, named);
  return Random{(static_cast<std::uint64_t>(p[0]) << 32) | p[1]};
}

}  // namespace trireme
