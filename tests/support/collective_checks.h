// Checks of every collective that are the same on every transport. Inputs are small integers, so
// that sums are exact in any order, and results are compared with == against a closed form. To be
// called by all ranks of a mesh.
#pragma once

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/comm/mesh.h"

#include "tests/support/host_stream.h"

namespace trireme {

/// Memory for a test: ordinary, or what Mesh::allocate gives.
enum class Memory { ordinary, allocated };

template <class T>
class TestArray {
 public:
  TestArray(Mesh& mesh, Memory memory, Index count)
      : count_(count),
        buffer_(memory == Memory::allocated ? mesh.allocate(count * Index{sizeof(T)}) : Buffer()),
        vector_(memory == Memory::ordinary ? static_cast<std::size_t>(count) : 0) {}
  T* data() { return buffer_ ? reinterpret_cast<T*>(buffer_.data()) : vector_.data(); }
  T& operator[](Index i) { return data()[i]; }
  Elements elements() { return part(0, count_); }
  Elements part(Index begin, Index count) { return {data() + begin, count, DTypeOf<T>::value}; }

 private:
  Index count_;
  Buffer buffer_;
  std::vector<T> vector_;
};

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
void check_all_reduce(Mesh& mesh, Communicator& group, Memory memory, Index count,
                      Reduction reduction) {
  HostStream stream;
  TestArray<T> x(mesh, memory, count);
  for (Index i = 0; i < count; ++i) x[i] = static_cast<T>(test_value(group.rank(), i));
  group.all_reduce(x.elements(), reduction, stream);
  Index wrong = 0;
  for (Index i = 0; i < count; ++i)
    wrong += x[i] != static_cast<T>(expected(reduction, group.size(), i));
  EXPECT_EQ(wrong, 0) << "all_reduce of " << count << " on rank " << group.rank();
}

enum class Overlap { apart, inside };

template <class T>
void check_reduce_scatter(Mesh& mesh, Communicator& group, Memory memory, Index count,
                          Overlap overlap) {
  HostStream stream;
  const int n = group.size(), r = group.rank();
  TestArray<T> in(mesh, memory, count * n), out(mesh, memory, count);
  for (Index i = 0; i < count * n; ++i) in[i] = static_cast<T>(test_value(r, i));
  Elements to = overlap == Overlap::inside ? in.part(r * count, count) : out.elements();
  group.reduce_scatter(in.elements(), to, Reduction::sum, stream);
  Index wrong = 0;
  for (Index i = 0; i < count; ++i)
    wrong +=
        static_cast<T*>(to.data)[i] != static_cast<T>(expected(Reduction::sum, n, r * count + i));
  EXPECT_EQ(wrong, 0) << "reduce_scatter of " << count << " on rank " << r;
  if (overlap == Overlap::apart)
    for (Index i = 0; i < count * n; ++i) wrong += in[i] != static_cast<T>(test_value(r, i));
  EXPECT_EQ(wrong, 0) << "reduce_scatter changed its input on rank " << r;
  group.barrier();
}

template <class T>
void check_all_gather(Mesh& mesh, Communicator& group, Memory memory, Index count,
                      Overlap overlap) {
  HostStream stream;
  const int n = group.size(), r = group.rank();
  TestArray<T> in(mesh, memory, count), out(mesh, memory, count * n);
  Elements from = overlap == Overlap::inside ? out.part(r * count, count) : in.elements();
  for (Index i = 0; i < count; ++i)
    static_cast<T*>(from.data)[i] = static_cast<T>(test_value(r, i));
  group.all_gather(from, out.elements(), stream);
  Index wrong = 0;
  for (int part = 0; part < n; ++part)
    for (Index i = 0; i < count; ++i)
      wrong += out[part * count + i] != static_cast<T>(test_value(part, i));
  EXPECT_EQ(wrong, 0) << "all_gather of " << count << " on rank " << r;
  group.barrier();
}

template <class T>
void check_broadcast(Mesh& mesh, Communicator& group, Memory memory, Index count, int root) {
  HostStream stream;
  TestArray<T> x(mesh, memory, count);
  for (Index i = 0; i < count; ++i) x[i] = static_cast<T>(test_value(group.rank(), i));
  group.broadcast(x.elements(), root, stream);
  Index wrong = 0;
  for (Index i = 0; i < count; ++i) wrong += x[i] != static_cast<T>(test_value(root, i));
  EXPECT_EQ(wrong, 0) << "broadcast of " << count << " on rank " << group.rank();
  group.barrier();
}

/// Everyone sends two messages of different sizes to everyone, itself excepted.
inline void check_exchange(Communicator& group, Index count) {
  HostStream stream;
  const int n = group.size(), r = group.rank();
  std::vector<std::vector<std::int64_t>> out, in;
  std::vector<Message> sends, receives;
  for (int peer = 0; peer < n; ++peer)
    for (int k = 0; k < 2; ++k) {
      if (peer == r) continue;
      out.emplace_back(static_cast<std::size_t>(count + k), (r * n + peer) * 2 + k);
      in.emplace_back(static_cast<std::size_t>(count + k), -1);
      sends.push_back({peer, out.back().data(), (count + k) * 8});
      receives.push_back({peer, in.back().data(), (count + k) * 8});
    }
  group.exchange(sends, receives, stream);
  for (std::size_t m = 0; m < receives.size(); ++m) {
    const std::int64_t want = (receives[m].peer * n + r) * 2 + static_cast<std::int64_t>(m % 2);
    EXPECT_TRUE(std::all_of(in[m].begin(), in[m].end(), [&](auto v) { return v == want; }))
        << "message " << m << " on rank " << r;
  }
}

inline void check_everything(Mesh& mesh, Communicator& group, Memory memory, Index largest) {
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
    check_exchange(group, count);
  }
}

}  // namespace trireme
