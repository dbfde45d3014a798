// Hashes of ranges of memory on CPUs: their definition, and what changes them.
#include "trireme/kernels/hash.h"

#include <bit>

#include "tests/kernels/all_instruction_sets.h"

namespace trireme {
namespace {

using Words = std::vector<std::uint64_t>;

Words random_words(Index count) {
  const Random random = random_for(1, "words");
  Words words(static_cast<std::size_t>(count));
  for (Index i = 0; i < count; ++i)
    words[static_cast<std::size_t>(i)] =
        std::uint64_t{random.bits(2 * i)} << 32 | random.bits(2 * i + 1);
  return words;
}

/// Of an empty, a short, a long and an overlapping range, on so many threads.
Words hashes(const Words& words, int threads) {
  const std::vector<ListedRange> ranges = {{5, 0}, {3, 2}, {0, 70001}, {1, 70000}};
  const std::unique_ptr<Device> device = open_cpu({threads});
  Words out(ranges.size(), 7);
  device->kernels().hash.ranges(
      *device->make_stream(),
      {{ranges.data(), static_cast<Index>(ranges.size())}, words.data(), out.data()});
  return out;
}

TEST(Hash, IsTheSumOfItsWordsOnAnyNumberOfThreads) {
  const Words words = random_words(70001);
  Words expected = {0, hashed_word(words[3], 0) + hashed_word(words[4], 1), 0, 0};
  for (std::uint64_t i = 0; i < 70001; ++i) {
    expected[2] += hashed_word(words[i], i);
    if (i > 0) expected[3] += hashed_word(words[i], i - 1);
  }
  for (const int threads : {1, 2, 3}) EXPECT_EQ(hashes(words, threads), expected) << threads;
  EXPECT_NE(expected[2], expected[3]);
}

TEST(Hash, ChangesWithEveryBitOfEveryWord) {
  const Words words = random_words(64);
  for (std::uint64_t i = 0; i < 64; ++i)
    for (int bit = 0; bit < 64; ++bit)
      ASSERT_NE(hashed_word(words[i], i), hashed_word(words[i] ^ std::uint64_t{1} << bit, i));
}

TEST(Hash, SeesWordsThatChangePlacesAndZerosOfAnotherSign) {
  const auto sum = [](const Words& words) {
    std::uint64_t total = 0;
    for (std::size_t i = 0; i < words.size(); ++i) total += hashed_word(words[i], i);
    return total;
  };
  EXPECT_NE(sum({1, 2}), sum({2, 1}));
  EXPECT_NE(sum({0, 0}), sum({std::bit_cast<std::uint64_t>(-0.0), 0}));
  EXPECT_NE(sum({0}), sum({0, 0}));
}

TEST(Hash, RefusesWordsThatAreNotAligned) {
  const std::unique_ptr<Device> device = open_cpu();
  const Words words(2);
  const auto* odd =
      reinterpret_cast<const std::uint64_t*>(reinterpret_cast<const std::byte*>(words.data()) + 4);
  const std::vector<ListedRange> ranges = {{0, 1}};
  std::uint64_t hash = 0;
  EXPECT_THROW(
      device->kernels().hash.ranges(*device->make_stream(), {{ranges.data(), 1}, odd, &hash}),
      Error);
}

}  // namespace
}  // namespace trireme
