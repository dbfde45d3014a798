// Hashes of ranges on a GPU are those of the CPU.
#include "trireme/kernels/hash.h"

#include "tests/kernels/cuda/cpu_gpu_pairs.h"

namespace trireme::test {
namespace {

/// Words as halves, which a comparison in doubles holds exactly.
std::uint64_t* put_words(Bench& b, const std::vector<std::int32_t>& halves) {
  return reinterpret_cast<std::uint64_t*>(b.put(halves));
}

// Empty, one word, odd places and counts, more than a tile, exactly two tiles.
TEST(CudaHash, GivesTheBitsOfTheCpu) {
  expect_agree(
      [](Bench& b) {
        constexpr Index tile = ListedRange::tile;
        std::vector<ListedRange> ranges = {
            {3, 0}, {3, 1}, {7, 1027}, {1, tile + 5}, {64, 2 * tile}};
        const auto count = static_cast<Index>(ranges.size());
        std::byte* memory =
            b.put(std::vector<std::byte>(static_cast<std::size_t>(list_bytes(ranges))));
        const DeviceList<ListedRange> all = upload(ranges, b.stream(), memory);
        const Random random = random_for(1, "words");
        std::vector<std::int32_t> halves;
        for (Index i = 0; i < 2 * (64 + 2 * tile); ++i)
          halves.push_back(static_cast<std::int32_t>(random.bits(i)));
        const std::uint64_t* words = put_words(b, halves);
        const auto hash = [&](const DeviceList<ListedRange>& list) {
          const std::vector<std::int32_t> old(static_cast<std::size_t>(2 * list.count), 7);
          b.kernels().hash.ranges(b.stream(), {list, words, put_words(b, old)});
        };
        hash(all);
        hash({all.ranges + 2, count - 2, all.tiles - 1});  // a part of a list
        hash({all.ranges, 1, 0});                          // nothing at all
      },
      0);
}

}  // namespace
}  // namespace trireme::test
