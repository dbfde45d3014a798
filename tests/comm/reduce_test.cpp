// Sums of bf16 on more ranks than one loop of reduce() reads: rounded once, at the end.
#include "runtime/comm/node/reduce.h"

#include <vector>

#include <gtest/gtest.h>

#include "trireme/core/bf16.h"
#include "trireme/core/random.h"

namespace trireme {
namespace {

TEST(Reduce, Bf16OfManyRanksIsRoundedOnce) {
  constexpr Index count = 9000;  // more than a block
  for (const int ranks : {1, 2, 8, 9, 16, 17, 40}) {
    std::vector<std::vector<Bf16>> values(static_cast<std::size_t>(ranks));
    std::vector<const std::byte*> sources;
    for (int r = 0; r < ranks; ++r) {
      auto& mine = values[static_cast<std::size_t>(r)];
      const Random random{static_cast<std::uint64_t>(r)};
      for (Index i = 0; i < count; ++i) mine.push_back(to_bf16(random.normal(i)));
      sources.push_back(reinterpret_cast<const std::byte*>(mine.data()));
    }
    std::vector<float> sums(count, 0), largest(count, -1e30f);
    for (const auto& mine : values)
      for (std::size_t i = 0; i < sums.size(); ++i) {
        sums[i] += to_float(mine[i]);
        largest[i] = std::max(largest[i], to_float(mine[i]));
      }
    std::vector<Bf16> result(count), copy(count);
    const std::vector<std::byte*> targets{reinterpret_cast<std::byte*>(result.data()),
                                          reinterpret_cast<std::byte*>(copy.data())};
    Index wrong = 0;
    const auto compare = [&](const std::vector<float>& expected) {
      for (std::size_t i = 0; i < expected.size(); ++i)
        wrong += result[i].bits != to_bf16(expected[i]).bits || copy[i].bits != result[i].bits;
    };
    comm::reduce(DType::bf16, Reduction::sum, sources, targets, count);
    compare(sums);
    comm::reduce(DType::bf16, Reduction::max, sources, targets, count);
    compare(largest);
    EXPECT_EQ(wrong, 0) << ranks << " ranks";
  }
}

}  // namespace
}  // namespace trireme
