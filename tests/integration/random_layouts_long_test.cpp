// Other random layouts each night. A failure prints the seed and the draw: set TRIREME_SEED and
// TRIREME_DRAWS to repeat it.
#include <random>

#include "tests/support/random_layouts.h"

namespace trireme::test {
namespace {

TEST(RandomLayouts, OfAnotherSeedAgreeWithOneRank) {
  RandomLayouts(number_in_environment("TRIREME_SEED", std::random_device()()))
      .expect_equivalent(number_in_environment("TRIREME_DRAWS", 600));
}

}  // namespace
}  // namespace trireme::test
