// Checks of the order in which collectives sum, by numbers that round. To be called by all ranks of
// a mesh.
#pragma once

#include <cstring>
#include <numeric>

#include <gtest/gtest.h>

#include "trireme/core/bf16.h"
#include "trireme/core/random.h"

#include "tests/support/test_array.h"

namespace trireme {

/// Sums of numbers that round: the same bits on all ranks, and those of adding in the order of the
/// ranks.
template <class T>
void check_order_of_sums(Mesh& mesh, Communicator& group, TestMemory memory) {
  HostStream stream;
  const Index count = 1000;
  const int n = group.size();
  const auto stored = [](float x) {
    if constexpr (std::is_same_v<T, Bf16>)
      return to_bf16(x);
    else
      return x;
  };
  const auto wide = [](T x) {
    if constexpr (std::is_same_v<T, Bf16>)
      return to_float(x);
    else
      return x;
  };
  const auto value = [&](int rank, Index i) {
    return stored(random_for(5, "sums", static_cast<std::uint64_t>(rank)).normal(i));
  };
  TestArray<T> terms(mesh, memory, count * n), x(mesh, memory, count), part(mesh, memory, count);
  for (Index i = 0; i < count; ++i) {
    x[i] = value(group.rank(), i);
    for (int p = 0; p < n; ++p) terms[p * count + i] = x[i];
  }
  group.all_reduce(x.elements(), Reduction::sum, stream);
  group.reduce_scatter(terms.elements(), part.elements(), Reduction::sum, stream);
  Index wrong = 0;
  for (Index i = 0; i < count; ++i) {
    float sum = wide(value(0, i));
    for (int r = 1; r < n; ++r) sum += wide(value(r, i));
    const float expected = wide(stored(sum));  // rounded once
    wrong += wide(x[i]) != expected || wide(part[i]) != expected;
  }
  EXPECT_EQ(wrong, 0) << "of " << DTypeOf<T>::value << " on rank " << group.rank();
  group.barrier();
}

/// Sums of numbers that round, scattered and gathered again: the same bits however they are cut.
template <class T>
void check_bits_of_any_cut(Mesh& mesh, Communicator& group, TestMemory memory) {
  HostStream stream;
  const int n = group.size();
  const Index all = 600 * n;
  const auto sums = [&](const std::vector<Index>& counts) {
    TestArray<T> terms(mesh, memory, all);
    const Random random = random_for(6, "cut", static_cast<std::uint64_t>(group.rank()));
    for (Index i = 0; i < all; ++i) {
      if constexpr (std::is_same_v<T, Bf16>)
        terms[i] = to_bf16(random.normal(i));
      else
        terms[i] = random.normal(i);
    }
    const auto mine = counts.begin() + group.rank();
    const Elements part = terms.part(std::accumulate(counts.begin(), mine, Index{0}), *mine);
    group.reduce_scatter(terms.elements(), part, Reduction::sum, stream, {counts});
    group.all_gather(part, terms.elements(), stream, {counts});
    return std::vector<T>(terms.data(), terms.data() + all);
  };
  const std::vector<T> equal = sums(std::vector<Index>(static_cast<std::size_t>(n), 600));
  for (int most = 0; most < n; ++most) {
    std::vector<Index> counts(static_cast<std::size_t>(n), 77);
    counts[static_cast<std::size_t>((most + 1) % n)] = 0;
    counts[static_cast<std::size_t>(most)] = 0;
    counts[static_cast<std::size_t>(most)] =
        all - std::accumulate(counts.begin(), counts.end(), Index{0});
    EXPECT_EQ(std::memcmp(sums(counts).data(), equal.data(), equal.size() * sizeof(T)), 0)
        << "of " << DTypeOf<T>::value << " on rank " << group.rank() << ", most on " << most;
  }
  group.barrier();
}

}  // namespace trireme
