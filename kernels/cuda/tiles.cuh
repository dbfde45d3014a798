// Which tile of a list of ranges a block takes (trireme/kernels/range_list.h).
#pragma once

#include "trireme/kernels/range_list.h"

#include "kernels/cuda/gpu.cuh"

namespace trireme::kernels::gpu {

/// The range that tile `tile` of the list lies in. All threads of a block do the same search, in
/// the cache.
template <class Range>
__device__ __forceinline__ Index range_of_tile(const DeviceList<Range>& list, Index tile) {
  tile += list.ranges[0].tiles_before;
  Index low = 0, high = list.count;
  while (high - low > 1) {
    const Index middle = (low + high) / 2;
    (list.ranges[middle].tiles_before <= tile ? low : high) = middle;
  }
  return low;
}

}  // namespace trireme::kernels::gpu
