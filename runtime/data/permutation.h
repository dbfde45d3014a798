// Permutation: a shuffle of [0, size) that is computed, not stored. A Feistel network of Philox
// rounds is a keyed bijection of a power of two; indices that fall outside [0, size) are sent
// through again until they fall inside
// ("cycle walking": Black and Rogaway, "Ciphers with Arbitrary Finite Domains", CT-RSA 2002).
#pragma once

#include <cstdint>

#include "trireme/core/dtype.h"

namespace trireme::data {

class Permutation {
 public:
  /// size: in [1, 2^62].
  Permutation(Index size, std::uint64_t key);
  Index size() const { return size_; }
  /// The i-th item, i in [0, size). About a microsecond.
  Index operator()(Index i) const;

 private:
  std::uint64_t encrypt(std::uint64_t x) const;

  Index size_;
  std::uint64_t key_;
  int low_bits_, high_bits_;
};

}  // namespace trireme::data
