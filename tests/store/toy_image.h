// ToyImage: a file's layout made by hand from a seed: random pieces, structure that partly lies
// under them, gaps, and what the file must be.
#pragma once

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "runtime/store/checksum.h"
#include "runtime/store/file_layout.h"

namespace trireme {

struct ToyImage {
  FileLayout layout;                           // its pieces without memory
  std::vector<std::vector<std::byte>> memory;  // of the pieces
  std::vector<std::byte> expected;

  /// The layout with the memory of its pieces: the host's, or that of a device, which here is a
  /// CPU.
  FileLayout filled(MemoryOf whose = MemoryOf::host) const {
    FileLayout all = layout;
    for (std::size_t i = 0; i < memory.size(); ++i)
      all.pieces[i].data = memory[i].data(), all.pieces[i].memory = whose;
    return all;
  }
};

inline std::vector<std::byte> random_bytes(Index count, std::mt19937_64& random) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < bytes.size(); i += sizeof(std::uint64_t)) {
    const std::uint64_t word = random();
    std::memcpy(&bytes[i], &word, std::min(sizeof word, bytes.size() - i));
  }
  return bytes;
}

/// `pieces` of them, in random order, between `bytes` of structure, gaps and one another.
inline ToyImage make_toy_image(Index bytes, int pieces, unsigned seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](Index n) {
    return n <= 0 ? Index{0} : static_cast<Index>(random() % static_cast<std::uint64_t>(n));
  };
  ToyImage image;
  image.layout.bytes = bytes;
  image.expected.resize(static_cast<std::size_t>(bytes));
  const auto put = [&](Index offset, const std::vector<std::byte>& what) {
    std::copy(what.begin(), what.end(), image.expected.begin() + offset);
  };
  for (Index end = 0; end < bytes;) {
    const Index offset = end + below(bytes / (2 * pieces + 1));
    const Index count = std::min(bytes - offset, 1 + below(bytes / (4 * pieces + 1)));
    if (count <= 0) break;
    image.layout.structure.push_back({offset, random_bytes(count, random)});
    put(offset, image.layout.structure.back().bytes);
    end = offset + count;
  }
  std::vector<Index> cuts;
  for (int i = 0; i < 2 * pieces; ++i) cuts.push_back(below(bytes + 1));
  std::sort(cuts.begin(), cuts.end());
  std::vector<std::pair<Index, Index>> ranges;
  for (std::size_t i = 0; i < cuts.size(); i += 2)
    if (cuts[i] < cuts[i + 1]) ranges.push_back({cuts[i], cuts[i + 1]});
  std::shuffle(ranges.begin(), ranges.end(), random);
  for (const auto& [begin, end] : ranges) {
    const Shape count{end - begin};
    image.layout.pieces.push_back({.tensor = "toy",
                                   .dtype = DType::u8,
                                   .global = count,
                                   .box = {Shape{0}, count},
                                   .offset = begin});
    image.memory.push_back(random_bytes(end - begin, random));
    put(begin, image.memory.back());
  }
  return image;
}

}  // namespace trireme
