// Any layout loads what any other layout saved (invariant 3 of docs/concepts/architecture.md), and
// trains on like one rank (invariant 1): a third of all ordered pairs, every layout as source and
// as target; all of them are in checkpoint_layouts_long_test.cpp.

#include "tests/support/layout_pairs.h"

namespace trireme::test {
namespace {

// The target lies 1, 4, 7 or 10 places after the source in the circle of 12 layouts; the models
// share these distances.
void expect_pairs(const std::string& model, std::initializer_list<std::size_t> distances) {
  LayoutPairs pairs(model, Ranks::threads, every_layout());
  for (const std::size_t distance : distances)
    for (std::size_t from = 0; from < all_layouts.size(); ++from)
      pairs.expect_loads(from, (from + distance) % all_layouts.size());
}

TEST(CheckpointLayouts, EachLoadsWhatAnotherSavedOfAGpt) { expect_pairs(small_gpt, {4, 7}); }
TEST(CheckpointLayouts, EachLoadsWhatAnotherSavedOfALlama) { expect_pairs(small_llama, {1, 10}); }

// From 3 tensor ranks to the 8 that have all axes, ZeRO and two chunks, and back to one.
TEST(CheckpointLayouts, UnderMpirunAsWell) {
  LayoutPairs pairs(small_gpt, Ranks::processes, {6, 11});
  pairs.expect_loads(6, 11);
  pairs.expect_loads(11, 0);
}

}  // namespace
}  // namespace trireme::test
