// Any layout loads what any other layout saved, and trains on like one rank: all ordered pairs of the 12 layouts, and each
// with itself.

#include "tests/support/layout_pairs.h"

namespace trireme::test {
namespace {

void expect_all_pairs(const std::string& model) {
  LayoutPairs pairs(model);
  for (std::size_t from = 0; from < all_layouts.size(); ++from)
    for (std::size_t to = 0; to < all_layouts.size(); ++to) pairs.expect_loads(from, to);
}

TEST(CheckpointLayouts, EachLoadsWhatEverySavedOfAGpt) { expect_all_pairs(small_gpt); }
TEST(CheckpointLayouts, EachLoadsWhatEverySavedOfALlama) { expect_all_pairs(small_llama); }

}  // namespace
}  // namespace trireme::test
