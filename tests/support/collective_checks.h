// Checks of every collective that are the same on every transport. Inputs are small integers, so
// that sums are exact in any order, and results are compared with == against a closed form. To be
// called by all ranks of a mesh.
#pragma once

#include "tests/support/parts_checks.h"

namespace trireme {

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
    const auto parts = [&](TestParts::Kind kind) { return TestParts(kind, group.size(), count); };
    for (Overlap overlap : {Overlap::apart, Overlap::inside}) {
      check_reduce_scatter<float>(mesh, group, memory, parts(TestParts::Kind::equal), overlap);
      check_all_gather<float>(mesh, group, memory, parts(TestParts::Kind::equal), overlap);
    }
    check_unequal_parts(mesh, group, memory, std::min<Index>(count, 40001));  // several rounds
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
