// The boxes that a flat range of a tensor consists of.
#include "trireme/core/box.h"

#include <vector>

#include <gtest/gtest.h>

#include "trireme/core/error.h"

namespace trireme {
namespace {

// The elements of `box` in row-major order, each named by its index in a tensor far larger than any
// box here.
std::vector<Index> elements(const Box& box) {
  std::vector<Index> out;
  for (Index flat = 0; flat < box.count(); ++flat) {
    Index rest = flat, name = 0, unit = 1;
    for (int d = box.size.dims() - 1; d >= 0; --d) {
      name += (box.begin[d] + rest % box.size[d]) * unit;
      rest /= box.size[d];
      unit *= 100;
    }
    out.push_back(name);
  }
  return out;
}

void expect_all_ranges_match(const Box& box) {
  const std::vector<Index> all = elements(box);
  for (Index begin = 0; begin <= box.count(); ++begin)
    for (Index end = begin; end <= box.count(); ++end) {
      std::vector<Index> found;
      const std::vector<Box> boxes = boxes_of_flat_range(box, begin, end);
      for (const Box& part : boxes) {
        ASSERT_GT(part.count(), 0);
        for (const Index element : elements(part)) found.push_back(element);
      }
      ASSERT_EQ(found, std::vector<Index>(all.begin() + begin, all.begin() + end))
          << box.size << " [" << begin << ", " << end << ")";
      ASSERT_LE(boxes.size(), static_cast<std::size_t>(std::max(1, 2 * box.size.dims() - 1)));
    }
}

TEST(BoxesOfFlatRange, MatchBruteForceForEveryRange) {
  expect_all_ranges_match({{5}, {7}});
  expect_all_ranges_match({{1, 2}, {3, 5}});
  expect_all_ranges_match({{0, 0, 0}, {2, 3, 4}});
  expect_all_ranges_match({{4, 3, 2, 1}, {2, 1, 3, 2}});
  expect_all_ranges_match({{0, 9, 9}, {1, 1, 6}});
  expect_all_ranges_match({Shape{}, Shape{}});
}

TEST(BoxesOfFlatRange, OfAWholeBoxIsThatBox) {
  const Box box{{4, 0, 2}, {3, 5, 7}};
  const std::vector<Box> boxes = boxes_of_flat_range(box, 0, box.count());
  ASSERT_EQ(boxes.size(), 1u);
  EXPECT_EQ(boxes[0], box);
}

TEST(BoxesOfFlatRange, OfAnEmptyBoxIsNothing) {
  EXPECT_TRUE(boxes_of_flat_range({{0, 0}, {0, 5}}, 0, 0).empty());
}

TEST(BoxesOfFlatRange, RejectsARangeOutside) {
  const Box box{{0, 0}, {2, 3}};
  EXPECT_THROW(boxes_of_flat_range(box, 0, 7), Error);
  EXPECT_THROW(boxes_of_flat_range(box, -1, 2), Error);
  EXPECT_THROW(boxes_of_flat_range(box, 3, 2), Error);
}

}  // namespace
}  // namespace trireme
