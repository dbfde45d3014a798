// Counter-based random numbers: the n-th number of a key is a pure function, so initial values,
// dropout and the data order never depend on rank, layout, thread or the order of evaluation.
// Philox4x32-10: Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "trireme/core/dtype.h"
#include "trireme/core/macros.h"

namespace trireme {

/// Four random words. (The functions of std::array are not for GPUs.)
struct Philox {
  std::uint32_t words[4];
  TRIREME_HD std::uint32_t operator[](std::size_t i) const { return words[i]; }
};

/// Four random words for one counter under one key.
TRIREME_HD inline Philox philox(std::uint64_t counter, std::uint64_t key) {
  std::uint32_t c0 = static_cast<std::uint32_t>(counter),
                c1 = static_cast<std::uint32_t>(counter >> 32);
  std::uint32_t c2 = 0, c3 = 0;
  std::uint32_t k0 = static_cast<std::uint32_t>(key), k1 = static_cast<std::uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t p0 = 0xD2511F53ull * c0, p1 = 0xCD9E8D57ull * c2;
    const std::uint32_t hi0 = static_cast<std::uint32_t>(p0 >> 32),
                        lo0 = static_cast<std::uint32_t>(p0);
    const std::uint32_t hi1 = static_cast<std::uint32_t>(p1 >> 32),
                        lo1 = static_cast<std::uint32_t>(p1);
    c0 = hi1 ^ c1 ^ k0;
    c1 = lo1;
    c2 = hi0 ^ c3 ^ k1;
    c3 = lo0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

/// A stream of random numbers addressed by index. Trivially copyable; usable in kernels.
struct Random {
  std::uint64_t key = 0;

  TRIREME_HD std::uint32_t bits(Index i) const {
    return philox(static_cast<std::uint64_t>(i) >> 2, key)[static_cast<std::size_t>(i & 3)];
  }
  /// In [0, 1), 24 bits.
  TRIREME_HD float uniform(Index i) const { return static_cast<float>(bits(i) >> 8) * 0x1p-24f; }
  /// Standard normal by Box-Muller, one Philox block an index.
  float normal(Index i) const {
    const Philox p = philox(static_cast<std::uint64_t>(i), key);
    const double u = (p[0] + 1.0) * 0x1p-32, v = p[1] * 0x1p-32;  // u in (0, 1]
    return static_cast<float>(std::sqrt(-2.0 * std::log(u)) * std::cos(6.283185307179586 * v));
  }
};

/// Returns the key of (seed, logical name), which random_of_step() takes.
std::uint64_t random_key(std::uint64_t seed, std::string_view name);
TRIREME_HD inline Random random_of_step(std::uint64_t key, std::uint64_t step) {
  const Philox p = philox(step, key);
  return Random{(static_cast<std::uint64_t>(p[0]) << 32) | p[1]};
}
/// The random numbers of (seed, logical name, step). They do not depend on the layout.
inline Random random_for(std::uint64_t seed, std::string_view name, std::uint64_t step = 0) {
  return random_of_step(random_key(seed, name), step);
}

}  // namespace trireme
