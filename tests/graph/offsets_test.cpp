// Offsets are first fit, however many buffers there are.
#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "runtime/graph/compile/lifetimes.h"

namespace trireme::graph {
namespace {

/// The lowest offset at which a buffer meets none of those that are placed, by trying them all.
Index first_fit(const Stretch& buffer, const std::vector<Stretch>& placed) {
  std::vector<Index> offsets{0};
  for (const Stretch& other : placed) offsets.push_back(other.offset + align_up(other.bytes));
  std::sort(offsets.begin(), offsets.end());
  for (const Index offset : offsets)
    if (std::none_of(placed.begin(), placed.end(), [&](const Stretch& other) {
          return other.begin <= buffer.end && buffer.begin <= other.end &&
                 offset < other.offset + align_up(other.bytes) &&
                 other.offset < offset + align_up(buffer.bytes);
        }))
      return offset;
  return -1;
}

void expect_first_fit(std::vector<Stretch> buffers) {
  place_buffers(buffers, true);
  std::stable_sort(buffers.begin(), buffers.end(), [](const Stretch& a, const Stretch& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.begin < b.begin;
  });
  std::vector<Stretch> placed;
  for (const Stretch& buffer : buffers) {
    ASSERT_EQ(buffer.offset, first_fit(buffer, placed)) << "of buffer " << placed.size();
    placed.push_back(buffer);
  }
}

Stretch stretch(Index bytes, int begin, int end) {
  Stretch s;
  s.bytes = bytes;
  s.begin = begin;
  s.end = end;
  s.arena = Instance::Arena::slot;
  return s;
}

TEST(Offsets, OfManyBuffersOfAllLifetimesIsFirstFit) {
  std::mt19937 random(7);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  std::vector<Stretch> buffers;
  for (int i = 0; i < 700; ++i) {
    const int begin = below(1000), length = below(10) == 0 ? below(1000) : below(20);
    buffers.push_back(stretch(1 + below(9000), begin, begin + length));
  }
  expect_first_fit(buffers);
}

TEST(Offsets, OfLayersThatEndInReverseIsFirstFit) {
  std::vector<Stretch> buffers;
  constexpr int layers = 60;
  for (int layer = 0; layer < layers; ++layer)
    for (const Index bytes : {4096, 4096, 1000, 256}) {
      buffers.push_back(stretch(bytes, layer, 2 * layers - layer));
      buffers.push_back(stretch(bytes, layer, layer));
      buffers.push_back(stretch(bytes, 2 * layers - layer, 2 * layers - layer + 1));
    }
  expect_first_fit(buffers);
}

TEST(Offsets, UsesAHoleBetweenBuffersThatAllLiveNow) {
  std::vector<Stretch> buffers;
  for (int i = 0; i < 256; ++i) buffers.push_back(stretch(8192, i, i));  // a group is full
  buffers.push_back(stretch(4096, 400, 999));
  for (int i = 0; i < 128; ++i) buffers.push_back(stretch(2048, 0, 999));
  buffers.push_back(stretch(1024, 500, 600));
  expect_first_fit(buffers);
}

}  // namespace
}  // namespace trireme::graph
