// Lists of ranges of a flat buffer, on the device: one call of an optimizer kernel processes all of
// them (kernels/optimizer.h).
#pragma once

#include <vector>

#include "trireme/core/device.h"
#include "trireme/core/macros.h"

namespace trireme {

/// Elements [begin, begin + count) of a flat buffer, in a list of such ranges. A GPU processes a
/// range in tiles.
struct ListedRange {
  Index begin = 0, count = 0;
  Index tiles_before = 0;  // in the list: upload() sets it

  static constexpr Index tile = 4096;  // elements
  TRIREME_HD Index tiles() const { return (count + tile - 1) / tile; }
};
/// A range with uniform update rules. It begins at `begin` in the gradients and the compute copy.
struct UpdateRange : ListedRange {
  Index parameter_begin = 0;  // in the parameters
  Index state_begin = 0;      // in the state buffers
  double weight_decay = 0;
};

/// A list on the device, or consecutive entries of one. `tiles`: of these ranges together.
template <class Range>
struct DeviceList {
  const Range* ranges = nullptr;
  Index count = 0, tiles = 0;
};

/// Bytes that a list takes on the device.
template <class Range>
Index list_bytes(const std::vector<Range>& ranges) {
  return (static_cast<Index>(ranges.size() * sizeof(Range)) + 63) / 64 * 64;
}
/// Numbers the tiles of a list and copies it to `memory`, list_bytes() of device memory. Waits for
/// the stream.
template <class Range>
DeviceList<Range> upload(std::vector<Range>& ranges, Stream& stream, std::byte* memory) {
  DeviceList<Range> list{reinterpret_cast<const Range*>(memory), static_cast<Index>(ranges.size())};
  for (Range& range : ranges) {
    range.tiles_before = list.tiles;
    list.tiles += range.tiles();
  }
  stream.copy(memory, ranges.data(), list.count * static_cast<Index>(sizeof(Range)));
  stream.synchronize();
  return list;
}

}  // namespace trireme
