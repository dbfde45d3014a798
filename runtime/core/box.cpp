#include "trireme/core/box.h"

#include <algorithm>

#include "trireme/core/error.h"

namespace trireme {

namespace {

// Appends the boxes of flat range [begin, end) inside dims [dim, ...) of `box`; outer dims are
// fixed in `prefix`.
void append(const Box& box, int dim, Index begin, Index end, Box& prefix, std::vector<Box>& out) {
  if (begin >= end) return;
  Index inner = 1;
  for (int d = dim + 1; d < box.size.dims(); ++d) inner *= box.size[d];
  const auto fix = [&](Index from, Index extent) {
    prefix.begin[dim] = box.begin[dim] + from;
    prefix.size[dim] = extent;
  };
  const Index first = begin / inner, first_rest = begin % inner;
  const Index last = end / inner, last_rest = end % inner;
  if (first_rest == 0 && last_rest == 0) {  // whole rows of this dim: one box
    fix(first, last - first);
    for (int d = dim + 1; d < box.size.dims(); ++d) {
      prefix.begin[d] = box.begin[d];
      prefix.size[d] = box.size[d];
    }
    out.push_back(prefix);
    return;
  }
  if (first == last) {
    fix(first, 1);
    append(box, dim + 1, first_rest, last_rest, prefix, out);
    return;
  }
  Index middle = first;
  if (first_rest != 0) {
    fix(first, 1);
    append(box, dim + 1, first_rest, inner, prefix, out);
    middle = first + 1;
  }
  append(box, dim, middle * inner, last * inner, prefix, out);
  if (last_rest != 0) {
    fix(last, 1);
    append(box, dim + 1, 0, last_rest, prefix, out);
  }
}

}  // namespace

std::vector<Box> boxes_of_flat_range(const Box& box, Index begin, Index end) {
  require(0 <= begin && begin <= end && end <= box.count(), "flat range [", begin, ", ", end,
          ") does not lie in a box of ", box.count(), " elements");
  std::vector<Box> out;
  if (box.size.dims() == 0) {
    if (begin < end) out.push_back(box);
    return out;
  }
  Box prefix = box;
  append(box, 0, begin, end, prefix, out);
  return out;
}

}  // namespace trireme
