// Checks of every collective that are the same on every transport. Inputs are small integers, so
// that sums are exact in any order, and results are compared with == against a closed form. To be
// called by all ranks of a mesh.
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

template <class T>
void check_all_reduce(Mesh& mesh, Communicator& group, TestMemory memory, Index count,
                      Reduction reduction) {
  TestStream stream(memory);
  TestArray<T> x(mesh, memory, count);
  for (Index i = 0; i < count; ++i) x[i] = static_cast<T>(test_value(group.rank(), i));
  x.upload();
  group.all_reduce(x.elements(), reduction, stream);
  x.download();
  Index wrong = 0;
  for (Index i = 0; i < count; ++i)
    wrong += x[i] != static_cast<T>(expected(reduction, group.size(), i));
  EXPECT_EQ(wrong, 0) << "all_reduce of " << count << " on rank " << group.rank();
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

template <class T>
void check_broadcast(Mesh& mesh, Communicator& group, TestMemory memory, Index count, int root) {
  TestStream stream(memory);
  TestArray<T> x(mesh, memory, count);
  for (Index i = 0; i < count; ++i) x[i] = static_cast<T>(test_value(group.rank(), i));
  x.upload();
  group.broadcast(x.elements(), root, stream);
  x.download();
  Index wrong = 0;
  for (Index i = 0; i < count; ++i) wrong += x[i] != static_cast<T>(test_value(root, i));
  EXPECT_EQ(wrong, 0) << "broadcast of " << count << " on rank " << group.rank();
  group.barrier();
}

/// Everyone sends two messages of different sizes to everyone, itself excepted.
inline void check_exchange(Mesh& mesh, Communicator& group, TestMemory memory, Index count) {
  TestStream stream(memory);
  const int n = group.size(), r = group.rank();
  std::vector<std::unique_ptr<TestArray<std::int64_t>>> out, in;
  std::vector<Message> sends, receives;
  const auto fill = [&](TestArray<std::int64_t>& x, Index size, std::int64_t value) {
    for (Index i = 0; i < size; ++i) x[i] = value;
    x.upload();
  };
  for (int peer = 0; peer < n; ++peer)
    for (int k = 0; k < 2; ++k) {
      if (peer == r) continue;
      const Index size = count + k;
      out.push_back(std::make_unique<TestArray<std::int64_t>>(mesh, memory, size));
      in.push_back(std::make_unique<TestArray<std::int64_t>>(mesh, memory, size));
      fill(*out.back(), size, (r * n + peer) * 2 + k);
      fill(*in.back(), size, -1);
      sends.push_back({peer, out.back()->data(), size * 8});
      receives.push_back({peer, in.back()->data(), size * 8});
    }
  group.exchange(sends, receives, stream);
  for (std::size_t m = 0; m < receives.size(); ++m) {
    in[m]->download();
    const std::int64_t want = (receives[m].peer * n + r) * 2 + static_cast<std::int64_t>(m % 2);
    Index wrong = 0;
    for (Index i = 0; i < receives[m].bytes / 8; ++i) wrong += (*in[m])[i] != want;
    EXPECT_EQ(wrong, 0) << "message " << m << " on rank " << r;
  }
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

inline void check_everything(Mesh& mesh, Communicator& group, TestMemory memory, Index largest) {
  for (Index count : {Index{0}, Index{1}, Index{2}, Index{31}, Index{1000}, largest}) {
    for (Reduction reduction : {Reduction::sum, Reduction::max, Reduction::min}) {
      check_all_reduce<float>(mesh, group, memory, count, reduction);
      check_all_reduce<std::int64_t>(mesh, group, memory, count, reduction);
    }
    check_all_reduce<double>(mesh, group, memory, count, Reduction::sum);
    check_all_reduce<std::int32_t>(mesh, group, memory, count, Reduction::sum);
    const auto parts = [&](TestParts::Kind kind) { return TestParts(kind, group.size(), count); };
    for (Overlap overlap : {Overlap::apart, Overlap::inside}) {
      check_reduce_scatter<float>(mesh, group, memory, parts(TestParts::Kind::equal), overlap);
      check_all_gather<float>(mesh, group, memory, parts(TestParts::Kind::equal), overlap);
    }
    check_unequal_parts(mesh, group, memory, count);
    check_all_gather<std::uint8_t>(mesh, group, memory, parts(TestParts::Kind::equal),
                                   Overlap::apart);
    check_broadcast<float>(mesh, group, memory, count, group.size() - 1);
    check_broadcast<std::uint8_t>(mesh, group, memory, count, 0);
    // Messages lie in ordinary memory on a CPU: Mesh::allocate is collective over the world, and
    // groups differ in size.
    check_exchange(mesh, group, memory.gpu != nullptr ? memory : TestMemory(Memory::ordinary),
                   count);
  }
}

}  // namespace trireme
