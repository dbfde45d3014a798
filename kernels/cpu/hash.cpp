// Launcher and loop of the hash kernel: range by range, each divided among the threads.
#include "kernels/hash.h"

#include <atomic>

#include "kernels/cpu/cpu_device.h"

namespace trireme::kernels {

namespace {

void ranges(Stream& stream, const HashRanges& p) {
  check_hash(p);
  for (Index r = 0; r < p.list.count; ++r) {
    const ListedRange& range = p.list.ranges[r];
    const std::uint64_t* words = p.words + range.begin;
    std::atomic<std::uint64_t> hash = 0;
    parallel_for(stream, range.count, grain_elements, [&](Index begin, Index end) {
      std::uint64_t sum = 0;
      for (Index i = begin; i < end; ++i)
        sum += hashed_word(words[i], static_cast<std::uint64_t>(i));
      hash += sum;  // in any order: integers
    });
    p.hashes[r] = hash;
  }
}

}  // namespace

const HashKernels& cpu_table(const HashKernels*) {
  static constexpr HashKernels kernels = {ranges};
  return kernels;
}

}  // namespace trireme::kernels
