// One collective of the benchmark, as NVIDIA's nccl-tests have it: where its data lies, what every
// rank puts in, and what must come out.
#pragma once

#include <vector>

#include "trireme/comm/communicator.h"

namespace trireme::test {

enum class Operation { all_reduce, reduce_scatter, all_gather, exchange, broadcast };
const char* name(Operation operation);
/// "sum", or "none" where nothing is added.
const char* reduction_of(Operation operation);
/// Bus bandwidth over algorithm bandwidth in a group of `ranks`: nccl-tests, doc/PERFORMANCE.md.
double bus_factor(Operation operation, int ranks);

enum class Place { out_of_place, in_place };
/// Communicator has no other form: sums of all and broadcasts are in place, messages are not.
bool exists(Operation operation, Place place);

/// Elements of one operation: `count` of each rank, as NCCL's calls have it; `total` of all.
struct Size {
  Operation operation;
  DType dtype;
  int ranks;
  Index count, total;
  Index bytes() const { return total * size_bytes(dtype); }
};
/// Of at most `bytes`, where that is possible: one element, or 16 bytes a rank that gathers or
/// scatters. Parts of ranks are multiples of 16 bytes.
Size size_of(Operation operation, DType dtype, int ranks, Index bytes);

/// The most ranks whose sums bf16 holds exactly, whatever the order.
constexpr int most_ranks_of_bf16 = 128;

/// One operation over two regions of device memory of size.bytes() each.
class Case {
 public:
  /// `staging`: pinned, any multiple of 16 bytes. All must outlive it.
  Case(const Size& size, Place place, Communicator& group, std::byte* first, std::byte* second,
       const Buffer& staging);
  /// Starts it, and lets the stream wait for its end.
  void run(Stream& stream);
  /// Collective. Runs it on fresh data, small whole numbers; what it must write is NaN before.
  /// Elements of this rank that are wrong then.
  Index wrong(Stream& stream);

 private:
  float input(int rank, Index i) const { return static_cast<float>((i + rank) % modulus_); }
  float expected(Index i) const;
  float sum_of_inputs(Index i) const { return sums_[static_cast<std::size_t>(i % modulus_)]; }
  template <class F>
  void fill(Elements x, Stream& stream, F value);
  template <class F>
  Index count_wrong(Elements x, Stream& stream, F value);
  template <class F>
  void in_pieces(Elements x, F f);

  Size size_;
  Place place_;
  Communicator& group_;
  Elements in_, out_;
  const Buffer& staging_;
  Index modulus_;            // after so many elements, inputs repeat
  std::vector<float> sums_;  // of all ranks' inputs, until they do
};

}  // namespace trireme::test
