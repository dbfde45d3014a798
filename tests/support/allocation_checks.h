// Collectives and messages of a training loop: what a test counts allocations over.
#pragma once

#include <array>

#include "tests/support/collective_checks.h"

namespace trireme {

/// One step's worth of every operation, in `x` of 64 * group.size() floats, of 8 ranks at most.
inline void run_every_operation(Communicator& group, float* x, Stream& stream) {
  const Index n = group.size(), r = group.rank(), part = 64;
  const Elements all{x, part * n, DType::f32}, mine{x + r * part, part, DType::f32};
  const Ticket first = group.start_all_reduce(all, Reduction::sum, stream);
  const Ticket second = group.start_reduce_scatter(all, mine, Reduction::max, stream);
  const Ticket third = group.start_all_gather(mine, all, stream);
  std::array<Index, 8> counts;
  counts.fill(part / 2);
  counts[0] += n * part / 2;
  const Parts parts{std::span(counts).first(static_cast<std::size_t>(n))};
  const Elements slice = r == 0 ? Elements{x, counts[0], DType::f32}
                                : Elements{x + (n + r) * part / 2, part / 2, DType::f32};
  const Ticket fourth = group.start_reduce_scatter(all, slice, Reduction::max, stream, parts);
  const Ticket fifth = group.start_all_gather(slice, all, stream, parts);
  group.progress();
  group.wait(third, stream);
  group.wait(fifth, stream);
  group.wait(fourth, stream);
  group.wait(first, stream);
  group.wait(second, stream);
  group.broadcast(all, 0, stream);
  float received[2];
  const int next = static_cast<int>((r + 1) % n), before = static_cast<int>((r + n - 1) % n);
  const Message send{next, x, 8}, receive{before, received, 8};
  group.exchange({&send, 1}, {&receive, 1}, stream);
  group.barrier();
}

}  // namespace trireme
