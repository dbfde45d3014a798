// Any layout loads what any other layout saved, and trains on like one rank: all ordered pairs of
// the 12 layouts, and each with itself.

#include "tests/support/layout_pairs.h"

namespace trireme::test {
namespace {

/// Every second source, from number `first` on.
void expect_all_pairs(const std::string& model, std::size_t first) {
  LayoutPairs pairs(model, Ranks::threads, every_layout());
  for (std::size_t from = first; from < all_layouts.size(); from += 2)
    for (std::size_t to = 0; to < all_layouts.size(); ++to) pairs.expect_loads(from, to);
}

TEST(CheckpointLayouts, EachLoadsWhatEverySecondSavedOfAGpt) { expect_all_pairs(small_gpt, 0); }
TEST(CheckpointLayouts, EachLoadsWhatTheOthersSavedOfAGpt) { expect_all_pairs(small_gpt, 1); }
TEST(CheckpointLayouts, EachLoadsWhatEverySecondSavedOfALlama) { expect_all_pairs(small_llama, 0); }
TEST(CheckpointLayouts, EachLoadsWhatTheOthersSavedOfALlama) { expect_all_pairs(small_llama, 1); }

}  // namespace
}  // namespace trireme::test
