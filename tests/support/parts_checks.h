// Checks of reduce-scatters and all-gathers, in equal and unequal parts, with the numbers that the
// checks of all collectives use (collective_checks.h). To be called by all ranks of a mesh.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "tests/support/test_array.h"

namespace trireme {

/// What rank `rank` contributes at `i`: small, and different for neighbours.
inline Index test_value(int rank, Index i) { return (i * 7 + rank * 13) % 101 - 50; }

inline Index expected(Reduction reduction, int ranks, Index i) {
  Index result = test_value(0, i);
  for (int r = 1; r < ranks; ++r) {
    const Index value = test_value(r, i);
    if (reduction == Reduction::sum) result += value;
    if (reduction == Reduction::max) result = std::max(result, value);
    if (reduction == Reduction::min) result = std::min(result, value);
  }
  return result;
}

enum class Overlap { apart, inside };

/// How a check divides elements among the ranks.
struct TestParts {
  enum class Kind { equal, by_weight, with_empty_ones, one_has_all };
  TestParts(Kind kind_, int ranks, Index count) : kind(kind_) {
    for (int r = 0; r < ranks; ++r) counts.push_back(count_of(kind, r, ranks, count));
  }
  Index begin(int rank) const {
    return std::accumulate(counts.begin(), counts.begin() + rank, Index{0});
  }
  Index count(int rank) const { return counts[static_cast<std::size_t>(rank)]; }
  Index all() const { return begin(static_cast<int>(counts.size())); }
  Parts parts() const { return kind == Kind::equal ? Parts{} : Parts{counts}; }

  Kind kind;
  std::vector<Index> counts;

 private:
  static Index count_of(Kind kind, int rank, int ranks, Index count) {
    switch (kind) {
      case Kind::equal:
        return count;
      case Kind::by_weight:
        return rank % 2 == 0 ? 3 * count / 2 + rank : count / 2;
      case Kind::with_empty_ones:
        return rank % 3 == 1 ? 2 * count : 0;
      case Kind::one_has_all:
        return rank == ranks - 1 ? ranks * count : 0;
    }
    return 0;
  }
};

template <class T>
void check_reduce_scatter(Mesh& mesh, Communicator& group, TestMemory memory,
                          const TestParts& parts, Overlap overlap) {
  TestStream stream(memory);
  const int n = group.size(), r = group.rank();
  const Index begin = parts.begin(r), count = parts.count(r), all = parts.all();
  TestArray<T> in(mesh, memory, all), out(mesh, memory, count);
  for (Index i = 0; i < all; ++i) in[i] = static_cast<T>(test_value(r, i));
  in.upload();
  const bool inside = overlap == Overlap::inside;
  group.reduce_scatter(in.elements(), inside ? in.part(begin, count) : out.elements(),
                       Reduction::sum, stream, parts.parts());
  in.download();
  out.download();
  Index wrong = 0;
  for (Index i = 0; i < count; ++i)
    wrong +=
        (inside ? in[begin + i] : out[i]) != static_cast<T>(expected(Reduction::sum, n, begin + i));
  EXPECT_EQ(wrong, 0) << "reduce_scatter of " << count << " of " << all << " on rank " << r;
  if (!inside)
    for (Index i = 0; i < all; ++i) wrong += in[i] != static_cast<T>(test_value(r, i));
  EXPECT_EQ(wrong, 0) << "reduce_scatter changed its input on rank " << r;
  group.barrier();
}

template <class T>
void check_all_gather(Mesh& mesh, Communicator& group, TestMemory memory, const TestParts& parts,
                      Overlap overlap) {
  TestStream stream(memory);
  const int n = group.size(), r = group.rank();
  const Index begin = parts.begin(r), count = parts.count(r), all = parts.all();
  TestArray<T> in(mesh, memory, count), out(mesh, memory, all);
  const bool inside = overlap == Overlap::inside;
  for (Index i = 0; i < count; ++i)
    (inside ? out[begin + i] : in[i]) = static_cast<T>(test_value(r, i));
  in.upload();
  out.upload();
  group.all_gather(inside ? out.part(begin, count) : in.elements(), out.elements(), stream,
                   parts.parts());
  out.download();
  Index wrong = 0;
  for (int part = 0; part < n; ++part) {
    const Index first = parts.begin(part), elements = parts.count(part);
    for (Index i = 0; i < elements; ++i)
      wrong += out[first + i] != static_cast<T>(test_value(part, i));
  }
  EXPECT_EQ(wrong, 0) << "all_gather of " << count << " of " << all << " on rank " << r;
  group.barrier();
}

/// Parts by weight, empty ones, and one rank that has all.
inline void check_unequal_parts(Mesh& mesh, Communicator& group, TestMemory memory, Index count) {
  Overlap overlap = count % 2 == 0 ? Overlap::apart : Overlap::inside;
  for (const auto kind : {TestParts::Kind::by_weight, TestParts::Kind::with_empty_ones,
                          TestParts::Kind::one_has_all}) {
    const TestParts parts(kind, group.size(), count);
    check_reduce_scatter<float>(mesh, group, memory, parts, overlap);
    overlap = overlap == Overlap::apart ? Overlap::inside : Overlap::apart;
    check_all_gather<float>(mesh, group, memory, parts, overlap);
  }
  check_all_gather<std::uint8_t>(
      mesh, group, memory, TestParts(TestParts::Kind::by_weight, group.size(), count), overlap);
}

}  // namespace trireme
