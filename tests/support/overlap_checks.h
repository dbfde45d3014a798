// Checks of started work, on any transport: much in flight, uneven progress, waits in any order,
// groups that wait across each other. To be called by all ranks of a mesh.
#pragma once

#include <numeric>

#include <unistd.h>

#include "trireme/core/random.h"

#include "tests/support/collective_checks.h"

namespace trireme {

/// Random numbers of one rank, or (rank -1) of all.
class TestDice {
 public:
  TestDice(std::uint64_t seed, int rank)
      : random_(random_for(seed, rank < 0 ? "shared dice" : "dice",
                           static_cast<std::uint64_t>(rank + 1))) {}
  Index operator()(Index below) { return static_cast<Index>(random_.bits(draws_++)) % below; }

 private:
  Random random_;
  Index draws_ = 0;
};

/// `operations` of all kinds in flight at once, of random sizes; each rank does something else for
/// a while between them and waits in an order of its own.
inline void check_many_in_flight(Mesh& mesh, Communicator& group, TestMemory memory, int operations,
                                 std::uint64_t seed) {
  TestStream stream(memory);
  const int n = group.size(), r = group.rank();
  constexpr Index largest = 700;
  TestDice shared(seed, -1), mine(seed, r);
  TestArray<float> arena(mesh, memory, operations * 2 * largest * n);
  struct Work {
    Ticket ticket;
    int kind;
    Index count;
    std::vector<Index> counts;  // of unequal parts
    Index in, out;              // in the arena
    int root;
    Message sends[2], receives[2];
  };
  std::vector<Work> works(static_cast<std::size_t>(operations));
  for (int k = 0; k < operations; ++k) {
    Work& work = works[static_cast<std::size_t>(k)];
    work.kind = static_cast<int>(shared(5));
    work.count = shared(largest);
    const bool unequal = shared(2) == 1;
    for (int q = 0; q < n; ++q) work.counts.push_back(unequal ? shared(largest) : work.count);
    work.root = static_cast<int>(shared(n));
    work.in = 2 * k * largest * n;
    work.out = work.in + largest * n;
    const Index all = std::accumulate(work.counts.begin(), work.counts.end(), Index{0});
    const Index own = work.counts[static_cast<std::size_t>(r)];
    const Index filled = work.kind == 1 ? all : work.kind == 2 ? own : work.count;
    for (Index i = 0; i < filled; ++i)
      arena[work.in + i] = static_cast<float>(test_value(r + k, i));
    arena.upload(work.in, filled);
    const Elements in = arena.part(work.in, filled);
    float *const from = arena.data() + work.in, *const to = arena.data() + work.out;
    const int next = (r + 1) % n, before = (r + n - 1) % n;
    if (work.kind == 0) work.ticket = group.start_all_reduce(in, Reduction::sum, stream);
    const Parts parts = unequal ? Parts{work.counts} : Parts{};
    if (work.kind == 1)
      work.ticket =
          group.start_reduce_scatter(in, arena.part(work.out, own), Reduction::sum, stream, parts);
    if (work.kind == 2)
      work.ticket = group.start_all_gather(in, arena.part(work.out, all), stream, parts);
    if (work.kind == 3) work.ticket = group.start_broadcast(in, work.root, stream);
    if (work.kind == 4) {  // around the ring, in two messages
      const Index half = work.count / 2, rest = work.count - half;
      work.sends[0] = {next, from, half * 4};
      work.sends[1] = {next, from + half, rest * 4};
      work.receives[0] = {before, to, half * 4};
      work.receives[1] = {before, to + half, rest * 4};
      work.ticket = group.start_exchange(work.sends, work.receives, stream);
    }
    if (mine(4) == 1) group.progress();
    if (mine(16) == 1) ::usleep(static_cast<unsigned>(mine(300)));
  }
  std::vector<int> order(static_cast<std::size_t>(operations));
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t k = order.size(); k > 1; --k)
    std::swap(order[k - 1], order[static_cast<std::size_t>(mine(static_cast<Index>(k)))]);
  const auto sum = [&](int k, Index i) {
    Index total = 0;
    for (int q = 0; q < n; ++q) total += test_value(q + k, i);
    return static_cast<float>(total);
  };
  for (int k : order) {
    Work& work = works[static_cast<std::size_t>(k)];
    group.wait(work.ticket, stream);
    arena.download(work.in, 2 * largest * n);
    EXPECT_TRUE(group.done(work.ticket));
    Index wrong = 0, before = 0;
    const auto in = [&](Index i) { return arena[work.in + i]; };
    const auto out = [&](Index i) { return arena[work.out + i]; };
    for (int q = 0; q < n; before += work.counts[static_cast<std::size_t>(q++)])
      for (Index i = 0; i < work.counts[static_cast<std::size_t>(q)]; ++i) {
        if (work.kind == 1 && q == r) wrong += out(i) != sum(k, before + i);
        if (work.kind == 2) wrong += out(before + i) != static_cast<float>(test_value(q + k, i));
      }
    for (Index i = 0; i < work.count; ++i) {
      if (work.kind == 0) wrong += in(i) != sum(k, i);
      if (work.kind == 3) wrong += in(i) != static_cast<float>(test_value(work.root + k, i));
      if (work.kind == 4) wrong += out(i) != static_cast<float>(test_value((r + n - 1) % n + k, i));
    }
    EXPECT_EQ(wrong, 0) << "operation " << k << " of kind " << work.kind << " on rank " << r;
  }
  group.barrier();
}

/// Rank by rank, the two axes are waited for in a different order: a rank that waits for one must
/// serve the other.
inline void check_crossed_waits(Mesh& mesh, int rounds, TestMemory memory = Memory::allocated) {
  TestStream stream(memory);
  Communicator& data = mesh.axis(Axis::data);
  Communicator& tensor = mesh.axis(Axis::tensor);
  TestArray<float> x(mesh, memory, 2000);
  Elements a = x.part(0, 1000), b = x.part(1000, 1000);
  for (int round = 0; round < rounds; ++round) {
    for (Index i = 0; i < 2000; ++i) x[i] = 1;
    x.upload();
    const Ticket first = data.start_all_reduce(a, Reduction::sum, stream);
    const Ticket second = tensor.start_all_reduce(b, Reduction::sum, stream);
    const bool data_first = (mesh.coordinate(Axis::data) + mesh.coordinate(Axis::tensor)) % 2 == 0;
    if (data_first) data.wait(first, stream);
    tensor.wait(second, stream);
    data.wait(first, stream);
    x.download();
    EXPECT_EQ(x[0], data.size());
    EXPECT_EQ(x[1999], tensor.size());
  }
  mesh.world().barrier();
}

}  // namespace trireme
