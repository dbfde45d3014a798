// Checks of every collective that are the same on every transport. Inputs are small integers, so
// that sums are exact in any order, and results are compared with == against a closed form. To be
// called by all ranks of a mesh.
#pragma once

#include <algorithm>
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

template <class T>
void check_reduce_scatter(Mesh& mesh, Communicator& group, TestMemory memory, Index count,
                          Overlap overlap) {
  TestStream stream(memory);
  const int n = group.size(), r = group.rank();
  TestArray<T> in(mesh, memory, count * n), out(mesh, memory, count);
  for (Index i = 0; i < count * n; ++i) in[i] = static_cast<T>(test_value(r, i));
  in.upload();
  const bool inside = overlap == Overlap::inside;
  group.reduce_scatter(in.elements(), inside ? in.part(r * count, count) : out.elements(),
                       Reduction::sum, stream);
  in.download();
  out.download();
  Index wrong = 0;
  for (Index i = 0; i < count; ++i)
    wrong += (inside ? in[r * count + i] : out[i]) !=
             static_cast<T>(expected(Reduction::sum, n, r * count + i));
  EXPECT_EQ(wrong, 0) << "reduce_scatter of " << count << " on rank " << r;
  if (!inside)
    for (Index i = 0; i < count * n; ++i) wrong += in[i] != static_cast<T>(test_value(r, i));
  EXPECT_EQ(wrong, 0) << "reduce_scatter changed its input on rank " << r;
  group.barrier();
}

template <class T>
void check_all_gather(Mesh& mesh, Communicator& group, TestMemory memory, Index count,
                      Overlap overlap) {
  TestStream stream(memory);
  const int n = group.size(), r = group.rank();
  TestArray<T> in(mesh, memory, count), out(mesh, memory, count * n);
  const bool inside = overlap == Overlap::inside;
  for (Index i = 0; i < count; ++i)
    (inside ? out[r * count + i] : in[i]) = static_cast<T>(test_value(r, i));
  in.upload();
  out.upload();
  group.all_gather(inside ? out.part(r * count, count) : in.elements(), out.elements(), stream);
  out.download();
  Index wrong = 0;
  for (int part = 0; part < n; ++part)
    for (Index i = 0; i < count; ++i)
      wrong += out[part * count + i] != static_cast<T>(test_value(part, i));
  EXPECT_EQ(wrong, 0) << "all_gather of " << count << " on rank " << r;
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

inline void check_everything(Mesh& mesh, Communicator& group, TestMemory memory, Index largest) {
  for (Index count : {Index{0}, Index{1}, Index{2}, Index{31}, Index{1000}, largest}) {
    for (Reduction reduction : {Reduction::sum, Reduction::max, Reduction::min}) {
      check_all_reduce<float>(mesh, group, memory, count, reduction);
      check_all_reduce<std::int64_t>(mesh, group, memory, count, reduction);
    }
    check_all_reduce<double>(mesh, group, memory, count, Reduction::sum);
    check_all_reduce<std::int32_t>(mesh, group, memory, count, Reduction::sum);
    for (Overlap overlap : {Overlap::apart, Overlap::inside}) {
      check_reduce_scatter<float>(mesh, group, memory, count, overlap);
      check_all_gather<float>(mesh, group, memory, count, overlap);
    }
    check_all_gather<std::uint8_t>(mesh, group, memory, count, Overlap::apart);
    check_broadcast<float>(mesh, group, memory, count, group.size() - 1);
    check_broadcast<std::uint8_t>(mesh, group, memory, count, 0);
    // Messages lie in ordinary memory on a CPU: Mesh::allocate is collective over the world, and
    // groups differ in size.
    check_exchange(mesh, group, memory.gpu != nullptr ? memory : TestMemory(Memory::ordinary),
                   count);
  }
}

}  // namespace trireme
