// The boxes of a logical tensor as they lie in a flat buffer.
#pragma once

#include <vector>

#include "trireme/core/box.h"
#include "trireme/graph/parameter.h"

namespace trireme::optim {

/// A box that is packed in memory, at an element offset into the flat buffers.
struct Packed {
  Box box;
  Index offset;
};

/// The part's box as packed boxes: one, unless an inner dim is padded.
inline std::vector<Packed> packed_boxes(const ParameterPart& part, Index offset) {
  if (part.box.count() == 0) return {};
  int padded = 0;  // innermost padded dim; boxes are one element in the dims before it
  for (int d = 1; d < part.box.size.dims(); ++d)
    if (part.box.size[d] != part.local[d]) padded = d;
  Index boxes = 1;
  for (int d = 0; d < padded; ++d) boxes *= part.box.size[d];
  const Shape strides = part.local.packed_strides();
  std::vector<Packed> result;
  for (Index i = 0; i < boxes; ++i) {
    Packed packed{part.box, offset + part.offset};
    Index rest = i;
    for (int d = padded - 1; d >= 0; --d) {
      const Index index = rest % part.box.size[d];
      rest /= part.box.size[d];
      packed.box.begin[d] += index;
      packed.box.size[d] = 1;
      packed.offset += index * strides[d];
    }
    result.push_back(packed);
  }
  return result;
}

}  // namespace trireme::optim
