#include "runtime/data/permutation.h"

#include <algorithm>
#include <bit>

#include "trireme/core/error.h"
#include "trireme/core/random.h"

namespace trireme::data {

namespace {
constexpr int rounds = 8;
constexpr int smallest_bits = 8;  // below, a Feistel network has too few different permutations

std::uint64_t mask(int bits) { return (std::uint64_t{1} << bits) - 1; }
}  // namespace

Permutation::Permutation(Index size, std::uint64_t key) : size_(size), key_(key) {
  require(size >= 1 && size <= Index{1} << 62, "a permutation of ", size, " items");
  const int bits = std::max(smallest_bits,
                            static_cast<int>(std::bit_width(static_cast<std::uint64_t>(size - 1))));
  low_bits_ = bits / 2;
  high_bits_ = bits - low_bits_;
}

// Each round adds a function of one half to the other half, which can be undone, so every round is
// a bijection.
std::uint64_t Permutation::encrypt(std::uint64_t x) const {
  std::uint64_t low = x & mask(low_bits_), high = x >> low_bits_;
  for (int round = 0; round < rounds; ++round) {
    std::uint64_t& target = round % 2 == 0 ? low : high;
    const std::uint64_t source = round % 2 == 0 ? high : low;
    const Philox word = philox(source | static_cast<std::uint64_t>(round) << 56, key_);
    target ^= word[0] & mask(round % 2 == 0 ? low_bits_ : high_bits_);
  }
  return high << low_bits_ | low;
}

Index Permutation::operator()(Index i) const {
  require(i >= 0 && i < size_, "item ", i, " of a permutation of ", size_);
  auto x = static_cast<std::uint64_t>(i);
  do x = encrypt(x);
  while (x >= static_cast<std::uint64_t>(size_));
  return static_cast<Index>(x);
}

}  // namespace trireme::data
