#include "runtime/data/fingerprint.h"

#include <algorithm>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace trireme::data {

std::uint64_t fingerprint(const TokenFile& file) {
  constexpr Index blocks = 64, block_tokens = 1024;
  const Index block = std::min(block_tokens, (file.tokens() + blocks - 1) / blocks);
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(block));
  std::uint64_t hash = static_cast<std::uint64_t>(file.tokens());
  for (Index b = 0; b < blocks && block > 0; ++b) {
    // The first block begins with the file, the last one ends with it; small files are covered.
    file.read((file.tokens() - block) * b / (blocks - 1), tokens);
    hash = XXH3_64bits_withSeed(tokens.data(), tokens.size() * sizeof(std::int64_t), hash);
  }
  return hash;
}

}  // namespace trireme::data
