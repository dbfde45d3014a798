#include "trireme/core/random.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace trireme {

std::uint64_t random_key(std::uint64_t seed, std::string_view name) {
  return XXH3_64bits_withSeed(name.data(), name.size(), seed);
}

}  // namespace trireme
