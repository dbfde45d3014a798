// Draw: what a test draws at random, the same for the same seed and number.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "trireme/core/random.h"

namespace trireme::test {

class Draw {
 public:
  /// `what` is drawn, for the `number`-th time.
  Draw(std::uint64_t seed, std::string_view what, std::uint64_t number)
      : random_(random_for(seed, what, number)) {}
  template <class T>
  T one_of(const std::vector<T>& all) {
    return all[static_cast<std::size_t>(below(static_cast<Index>(all.size())))];
  }
  Index below(Index end) {
    return static_cast<Index>(random_.bits(drawn_++) % static_cast<std::uint32_t>(end));
  }
  bool once_in(Index n) { return below(n) == 0; }

 private:
  Random random_;
  Index drawn_ = 0;
};

}  // namespace trireme::test
