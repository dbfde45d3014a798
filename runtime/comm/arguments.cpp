#include "runtime/comm/arguments.h"

#include "runtime/comm/node/reduce.h"

namespace trireme::comm::arguments {
namespace {

/// Throws when `part` overlaps anything of `whole` but its part `index`.
void check_overlap(const Communicator& group, Elements whole, Elements part) {
  const auto* whole_begin = static_cast<const std::byte*>(whole.data);
  const auto* part_begin = static_cast<const std::byte*>(part.data);
  const Index part_bytes = part.count * size_bytes(part.dtype);
  const Index whole_bytes = whole.count * size_bytes(whole.dtype);
  if (part_begin >= whole_begin + whole_bytes || part_begin + part_bytes <= whole_begin) return;
  require(part_begin == whole_begin + group.rank() * part_bytes, group.name(),
          " group: the small buffer may lie in the large one only as its part ", group.rank(),
          ", but it overlaps it from byte ", part_begin - whole_begin);
}

}  // namespace

void check_reduce_scatter(const Communicator& group, Elements in, Elements out) {
  require(in.count == out.count * group.size() && in.dtype == out.dtype, group.name(),
          " group: reduce_scatter over ", group.size(), " ranks from ", in.count, " ", in.dtype,
          " to ", out.count, " ", out.dtype, "; the input must be ", group.size(),
          " times the output");
  check_overlap(group, in, out);
}

void check_all_gather(const Communicator& group, Elements in, Elements out) {
  require(out.count == in.count * group.size() && in.dtype == out.dtype, group.name(),
          " group: all_gather over ", group.size(), " ranks from ", in.count, " ", in.dtype, " to ",
          out.count, " ", out.dtype, "; the output must be ", group.size(), " times the input");
  check_overlap(group, out, in);
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
