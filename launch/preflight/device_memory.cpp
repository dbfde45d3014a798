#include "launch/preflight/device_memory.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "trireme/core/error.h"
#include "trireme/kernels/hash.h"
#include "trireme/kernels/kernels.h"

#include "runtime/core/seconds_since.h"

namespace trireme::preflight {
namespace {

constexpr Index word_bytes = sizeof(std::uint64_t);
constexpr Index piece_words = (Index{16} << 20) / word_bytes;  // that are written together
constexpr Index places = 4096;  // of the pattern at which a piece may begin, so that pieces differ

std::vector<std::uint64_t> pattern(std::uint64_t mask) {
  constexpr std::uint64_t odd = 0x9E3779B97F4A7C15;
  std::vector<std::uint64_t> words(static_cast<std::size_t>(piece_words + places));
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = ((i + 1) * odd) ^ mask;
  return words;
}

/// Hashes of ranges of memory, computed where it is.
std::vector<std::uint64_t> hashes_of(Stream& stream, const std::byte* memory,
                                     std::vector<ListedRange> ranges) {
  const auto bytes = static_cast<Index>(ranges.size()) * word_bytes;
  const Buffer list = stream.device().allocate(list_bytes(ranges)),
               on_device = stream.device().allocate(bytes);
  std::vector<std::uint64_t> hashes(ranges.size());
  stream.kernels().hash.ranges(stream,
                               {.list = upload(ranges, stream, list.data()),
                                .words = reinterpret_cast<const std::uint64_t*>(memory),
                                .hashes = reinterpret_cast<std::uint64_t*>(on_device.data())});
  stream.copy(hashes.data(), on_device.data(), bytes);
  stream.synchronize();
  return hashes;
}

class Pieces {
 public:
  Pieces(Stream& stream, Index count)
      : stream_(stream),
        count_(count),
        memory_(stream.device().allocate(count * piece_words * word_bytes)),
        source_(stream.device().allocate((piece_words + places) * word_bytes)) {}

  /// Returns how many were written in time, at least one.
  Index write(std::uint64_t mask, double seconds) {
    const std::vector<std::uint64_t> words = pattern(mask);
    std::vector<std::uint64_t> back(words.size());
    const Index bytes = std::ssize(words) * word_bytes;
    stream_.copy(source_.data(), words.data(), bytes);
    stream_.copy(back.data(), source_.data(), bytes);
    stream_.synchronize();
    require(back == words, "memory of the device was read back with other bits");
    constexpr Index together = 4;
    const double began = steady_seconds();
    Index written = 0;
    while (written < count_ && (written == 0 || seconds_since(began) < seconds)) {
      for (Index i = 0; i < together && written < count_; ++i, ++written)
        stream_.copy(memory_.data() + written * piece_words * word_bytes,
                     source_.data() + place_of(written) * word_bytes, piece_words * word_bytes);
      stream_.synchronize();
    }
    return written;
  }
  void read(Index written) {
    std::vector<ListedRange> ranges, expected;
    for (Index i = 0; i < written; ++i) {
      ranges.push_back({i * piece_words, piece_words});
      expected.push_back({place_of(i), piece_words});
    }
    const std::vector<std::uint64_t> found = hashes_of(stream_, memory_.data(), ranges),
                                     right = hashes_of(stream_, source_.data(), expected);
    for (std::size_t i = 0; i < found.size(); ++i)
      require(found[i] == right[i],
              "memory of the device holds other bits than were written, "
              "from byte ",
              static_cast<Index>(i) * piece_words * word_bytes, " of what is free");
  }

 private:
  static Index place_of(Index piece) { return piece % places; }

  Stream& stream_;
  Index count_;
  Buffer memory_, source_;
};

}  // namespace

MemoryTested test_memory(Stream& stream, double seconds) {
  const Index free = stream.device().free_bytes();
  constexpr Index of_ten = 9;
  constexpr Index piece_bytes = piece_words * word_bytes;
  // Without the pattern and the lists.
  const Index count = (free / 10 * of_ten - 2 * piece_bytes) / piece_bytes;
  if (count < 1) return {0, free};
  Pieces pieces(stream, count);
  Index tested = count;
  constexpr int parts = 4;  // two patterns are written and read
  for (const std::uint64_t mask : {std::uint64_t{0}, ~std::uint64_t{0}}) {
    const Index written = pieces.write(mask, seconds / parts);
    pieces.read(written);
    tested = std::min(tested, written);
  }
  return {tested * piece_bytes, free};
}

}  // namespace trireme::preflight
