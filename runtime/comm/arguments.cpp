#include "runtime/comm/arguments.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "runtime/comm/node/reduce.h"

namespace trireme::comm::arguments {
namespace {

/// Throws when `part` overlaps anything of `whole` but what lies `before` elements behind its
/// begin.
void check_overlap(const Communicator& group, Elements whole, Elements part, Index before) {
  const auto* whole_begin = static_cast<const std::byte*>(whole.data);
  const auto* part_begin = static_cast<const std::byte*>(part.data);
  const Index part_bytes = part.count * size_bytes(part.dtype);
  const Index whole_bytes = whole.count * size_bytes(whole.dtype);
  if (part_bytes == 0) return;
  if (part_begin >= whole_begin + whole_bytes || part_begin + part_bytes <= whole_begin) return;
  require(part_begin == whole_begin + before * size_bytes(whole.dtype), group.name(),
          " group: the small buffer may lie in the large one only as its part ", group.rank(),
          ", but it overlaps it from byte ", part_begin - whole_begin);
}

/// What an operation with parts does: from `in` to `out`, one of which is `whole` and the other the
/// part of this rank.
struct Division {
  Collective collective;
  Elements in, out, whole, part;
  const char* whole_name;
  const char* part_name;
};

void check_equal(const Communicator& group, const Division& d) {
  require(d.whole.count == d.part.count * group.size() && d.in.dtype == d.out.dtype, group.name(),
          " group: ", name(d.collective), " over ", group.size(), " ranks from ", d.in.count, " ",
          d.in.dtype, " to ", d.out.count, " ", d.out.dtype, "; the ", d.whole_name, " must be ",
          group.size(), " times the ", d.part_name);
  check_overlap(group, d.whole, d.part, group.rank() * d.part.count);
}

void check_unequal(const Communicator& group, const Division& d, std::span<const Index> counts) {
  const auto ranks = static_cast<std::size_t>(group.size());
  require(counts.size() == ranks, group.name(), " group: ", name(d.collective), " in ",
          counts.size(), " parts; it must be ", ranks, ", one for each rank");
  for (std::size_t r = 0; r < ranks; ++r)
    require(counts[r] >= 0 && counts[r] <= d.whole.count, group.name(),
            " group: ", name(d.collective), " of ", d.whole.count, " ", d.whole.dtype,
            " whose part ", r, " has ", counts[r], " elements; it must have 0 to ", d.whole.count);
  const auto mine = counts.begin() + group.rank();
  const Index before = std::accumulate(counts.begin(), mine, Index{0});
  const Index all = std::accumulate(mine, counts.end(), before);
  require(d.whole.count == all && d.part.count == *mine && d.in.dtype == d.out.dtype, group.name(),
          " group: ", name(d.collective), " in ", ranks, " parts of ", all, " elements from ",
          d.in.count, " ", d.in.dtype, " to ", d.out.count, " ", d.out.dtype, "; the ",
          d.whole_name, " must have ", all, " and the ", d.part_name, " of rank ", group.rank(),
          " ", *mine, " of the same type");
  check_overlap(group, d.whole, d.part, before);
}

Parts check(const Communicator& group, const Division& d, Parts parts) {
  if (parts.counts.empty()) {
    check_equal(group, d);
    return {};
  }
  check_unequal(group, d, parts.counts);
  const auto other =
      std::adjacent_find(parts.counts.begin(), parts.counts.end(), std::not_equal_to<>());
  return other == parts.counts.end() ? Parts{} : parts;
}

}  // namespace

Parts check_reduce_scatter(const Communicator& group, Elements in, Elements out, Parts parts) {
  return check(group, {Collective::reduce_scatter, in, out, in, out, "input", "output"}, parts);
}

Parts check_all_gather(const Communicator& group, Elements in, Elements out, Parts parts) {
  return check(group, {Collective::all_gather, in, out, out, in, "output", "input"}, parts);
}

void check_root(const Communicator& group, int root) {
  require(root >= 0 && root < group.size(), group.name(), " group: no rank ", root,
          " to broadcast from; it has ", group.size());
}

void check_messages(const Communicator& group, std::span<const Message> messages) {
  for (const Message& message : messages)
    require(message.peer >= 0 && message.peer < group.size() && message.bytes >= 0, group.name(),
            " group: no exchange of ", message.bytes, " bytes with rank ", message.peer, " of ",
            group.size());
}

void check_reduction(const Communicator& group, Collective collective, DType dtype,
                     Reduction reduction) {
  require(dtype != DType::bf16 || reduction == Reduction::sum, group.name(), " group: no ",
          name(collective), " ", name(reduction), " of bf16; it has sums only");
  require(dtype != DType::u8, group.name(), " group: no ", name(collective), " of ", dtype,
          "; f32, f64, i32, i64 and bf16 (sums) have one");
}

}  // namespace trireme::comm::arguments
