#include "tests/benchmarks/gpu/nccl_case.h"

#include <algorithm>
#include <limits>

#include "trireme/core/bf16.h"

namespace trireme::test {
namespace {

constexpr Index alignment = 16;  // bytes
constexpr int root = 0;

bool has_parts(Operation operation) {
  return operation == Operation::all_gather || operation == Operation::reduce_scatter;
}

/// Inputs are below it. Odd, so that parts of ranks are no multiples of it; and sums of all ranks
/// are exact: below 2^24 in f32, at most 2^8 in bf16, whose partial sums NCCL rounds.
Index modulus_of(DType dtype, int ranks) {
  return dtype == DType::bf16 ? (256 / Index{ranks}) | 1 : 101;
}

float load(const std::byte* data, Index i, DType dtype) {
  return dtype == DType::f32 ? reinterpret_cast<const float*>(data)[i]
                             : to_float(reinterpret_cast<const Bf16*>(data)[i]);
}

void store(std::byte* data, Index i, DType dtype, float value) {
  if (dtype == DType::f32)
    reinterpret_cast<float*>(data)[i] = value;
  else
    reinterpret_cast<Bf16*>(data)[i] = to_bf16(value);
}

}  // namespace

const char* name(Operation operation) {
  switch (operation) {
    case Operation::all_reduce:
      return "all_reduce";
    case Operation::reduce_scatter:
      return "reduce_scatter";
    case Operation::all_gather:
      return "all_gather";
    case Operation::exchange:
      return "sendrecv";
    case Operation::broadcast:
      return "broadcast";
  }
  throw Error("unknown operation");
}

const char* reduction_of(Operation operation) {
  const bool sums = operation == Operation::all_reduce || operation == Operation::reduce_scatter;
  return sums ? "sum" : "none";
}

double bus_factor(Operation operation, int ranks) {
  const double part = (ranks - 1.0) / ranks;
  return operation == Operation::all_reduce ? 2 * part : has_parts(operation) ? part : 1;
}

bool exists(Operation operation, Place place) {
  return has_parts(operation) ||
         (place == Place::out_of_place) == (operation == Operation::exchange);
}

Size size_of(Operation operation, DType dtype, int ranks, Index bytes) {
  const Index element = size_bytes(dtype);
  if (!has_parts(operation)) {
    const Index count = std::max(bytes / element, Index{1});
    return {operation, dtype, ranks, count, count};
  }
  const Index part = std::max(bytes / ranks / alignment, Index{1}) * alignment / element;
  return {operation, dtype, ranks, part, part * ranks};
}

Case::Case(const Size& size, Place place, Communicator& group, std::byte* first, std::byte* second,
           const Buffer& staging)
    : size_(size),
      place_(place),
      group_(group),
      in_{first, size.total, size.dtype},
      out_{place == Place::in_place ? first : second, size.total, size.dtype},
      staging_(staging),
      modulus_(modulus_of(size.dtype, size.ranks)),
      sums_(static_cast<std::size_t>(modulus_)) {
  // In place, a rank's part is that part of the whole.
  const Index offset =
      place == Place::in_place ? group.rank() * size.count * size_bytes(size.dtype) : 0;
  if (size.operation == Operation::all_gather) in_ = {first + offset, size.count, size.dtype};
  if (size.operation == Operation::reduce_scatter)
    out_ = {static_cast<std::byte*>(out_.data) + offset, size.count, size.dtype};
  for (std::size_t i = 0; i < sums_.size(); ++i)
    for (int rank = 0; rank < size.ranks; ++rank) sums_[i] += input(rank, static_cast<Index>(i));
}

void Case::run(Stream& stream) {
  switch (size_.operation) {
    case Operation::all_reduce:
      return group_.all_reduce(out_, Reduction::sum, stream);
    case Operation::reduce_scatter:
      return group_.reduce_scatter(in_, out_, Reduction::sum, stream);
    case Operation::all_gather:
      return group_.all_gather(in_, out_, stream);
    case Operation::broadcast:
      return group_.broadcast(out_, root, stream);
    case Operation::exchange: {  // around the ring
      const int next = (group_.rank() + 1) % size_.ranks;
      const int previous = (group_.rank() + size_.ranks - 1) % size_.ranks;
      const Message send{next, in_.data, size_.bytes()},
          receive{previous, out_.data, size_.bytes()};
      return group_.exchange({&send, 1}, {&receive, 1}, stream);
    }
  }
}

/// Of element i of the output of this rank.
float Case::expected(Index i) const {
  switch (size_.operation) {
    case Operation::all_reduce:
      return sum_of_inputs(i);
    case Operation::reduce_scatter:
      return sum_of_inputs(group_.rank() * size_.count + i);
    case Operation::all_gather:
      return input(static_cast<int>(i / size_.count), i % size_.count);
    case Operation::exchange:
      return input((group_.rank() + size_.ranks - 1) % size_.ranks, i);
    case Operation::broadcast:
      return input(root, i);
  }
  throw Error("unknown operation");
}

/// f(device memory, bytes, index of the first element, elements) for pieces that staging holds.
template <class F>
void Case::in_pieces(Elements x, F f) {
  const Index element = size_bytes(x.dtype), most = staging_.bytes() / element;
  for (Index begin = 0; begin < x.count; begin += most) {
    const Index count = std::min(most, x.count - begin);
    f(static_cast<std::byte*>(x.data) + begin * element, count * element, begin, count);
  }
}

template <class F>
void Case::fill(Elements x, Stream& stream, F value) {
  in_pieces(x, [&](std::byte* device, Index bytes, Index begin, Index count) {
    for (Index i = 0; i < count; ++i) store(staging_.data(), i, x.dtype, value(begin + i));
    stream.copy(device, staging_.data(), bytes);
    stream.synchronize();
  });
}

template <class F>
Index Case::count_wrong(Elements x, Stream& stream, F value) {
  Index wrong = 0;
  in_pieces(x, [&](const std::byte* device, Index bytes, Index begin, Index count) {
    stream.copy(staging_.data(), device, bytes);
    stream.synchronize();
    for (Index i = 0; i < count; ++i)
      wrong += load(staging_.data(), i, x.dtype) != value(begin + i) ? 1 : 0;
  });
  return wrong;
}

Index Case::wrong(Stream& stream) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  fill(out_, stream, [&](Index) { return nan; });
  if (size_.operation != Operation::broadcast || group_.rank() == root)
    fill(in_, stream, [&](Index i) { return input(group_.rank(), i); });
  run(stream);
  return count_wrong(out_, stream, [&](Index i) { return expected(i); });
}

}  // namespace trireme::test
