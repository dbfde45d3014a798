// Hashes of ranges in one launch and one pass over memory: a block takes a tile of a range and adds
// its sum to the hash of the range. Integers: the order in which blocks do so does not matter.
#include "kernels/cuda/map.cuh"
#include "kernels/cuda/tiles.cuh"
#include "kernels/hash.h"

namespace trireme::kernels {
namespace gpu {

inline constexpr int hash_threads = 256;

struct AddWords {
  __device__ std::uint64_t operator()(std::uint64_t a, std::uint64_t b) const { return a + b; }
};

__global__ void __launch_bounds__(hash_threads) hash_kernel(HashRanges p) {
  __shared__ std::uint64_t scratch[hash_threads / warp_size];
  const Index tile = blockIdx.x, r = range_of_tile(p.list, tile);
  const ListedRange range = p.list.ranges[r];
  const Index before =
      (tile + p.list.ranges[0].tiles_before - range.tiles_before) * ListedRange::tile;
  const Index left = range.count - before;
  const std::uint64_t* from = p.words + range.begin + before;
  std::uint64_t sum = 0;
  for_span<hash_threads>(
      from, left < ListedRange::tile ? left : ListedRange::tile, true, [&]<int width>(Index i) {
        const Vec<std::uint64_t, width> words = load<width>(from + i);
        for (int k = 0; k < width; ++k)
          sum += hashed_word(words.values[k], static_cast<std::uint64_t>(before + i + k));
      });
  sum = block_reduce(sum, AddWords(), scratch);
  static_assert(sizeof(std::uint64_t) == sizeof(unsigned long long));
  if (threadIdx.x == 0) atomicAdd(reinterpret_cast<unsigned long long*>(p.hashes + r), sum);
}

}  // namespace gpu

namespace {

void ranges(Stream& stream, const HashRanges& p) {
  check_hash(p);
  stream.zero(p.hashes, p.list.count * static_cast<Index>(sizeof(std::uint64_t)));
  if (p.list.tiles == 0) return;
  check(gpu_launch(gpu::hash_kernel, dim3(static_cast<unsigned>(p.list.tiles)),
                   dim3(gpu::hash_threads), 0, cuda_stream_of(stream), p),
        "hashes");
}

}  // namespace

const HashKernels& cuda_table(const HashKernels*) {
  static constexpr HashKernels kernels = {ranges};
  return kernels;
}

}  // namespace trireme::kernels
