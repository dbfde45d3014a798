// Hashes of ranges of memory, to compare what several ranks should hold alike: 8 bytes in place of
// the range. The CPU and the GPU give the same hash. It finds damage, not forgery.
#pragma once

#include <cstdint>

#include "trireme/core/device.h"
#include "trireme/core/macros.h"
#include "trireme/kernels/range_list.h"

namespace trireme {

/// What word `i` of a range adds to its hash. For each i another bijection of the word: one word
/// that differs changes the hash for certain, several do but for one case in 2^64. The hash is the
/// sum modulo 2^64, the same in any order, so that many threads can share a range. (XXH3 is a chain
/// over its blocks.) The constants are those of the splitmix64 sequence and of Evensen's rrmxmx.
TRIREME_HD inline std::uint64_t hashed_word(std::uint64_t word, std::uint64_t i) {
  constexpr std::uint64_t step = 0x9e3779b97f4a7c15, factor = 0x9fb21c651e98df25;
  std::uint64_t x = word ^ (i + 1) * step;
  x = (x ^ x >> 32) * factor;
  x = (x ^ x >> 28) * factor;
  return x ^ x >> 28;
}

/// Bytes of a word that is hashed.
inline constexpr Index hashed_word_bytes = sizeof(std::uint64_t);

/// hashes[r] = the sum of hashed_word(words[begin + i], i) over range r of the list.
struct HashRanges {
  DeviceList<ListedRange> list;  // in words
  const std::uint64_t* words;
  std::uint64_t* hashes;  // one a range
};

struct HashKernels {
  void (*ranges)(Stream&, const HashRanges&);
};

}  // namespace trireme
