// Checksum: XXH3-128 (https://xxhash.com), made while bytes are copied. It detects corruption; it
// does not protect against deliberate changes.
//
// Not installed; modules above may include it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "trireme/core/dtype.h"

namespace trireme {

struct Checksum {
  std::uint64_t high = 0, low = 0;
  friend bool operator==(const Checksum&, const Checksum&) = default;
};

Checksum checksum(const void* data, Index bytes);
/// 32 hexadecimal digits, as xxhsum -H2 prints them.
std::string to_text(const Checksum& sum);
/// Nothing when it is not 32 hexadecimal digits.
std::optional<Checksum> parse_checksum(std::string_view text);

/// host: every thread can read it. device: the streams of the computing device can read it, and
/// threads if that is a CPU.
enum class MemoryOf { host, device };
/// A range of bytes to copy; null data means zeros.
struct Bytes {
  const void* data = nullptr;
  Index count = 0;
  MemoryOf memory = MemoryOf::host;
};
/// Writes the ranges of `from`, one after the other, to `to`, and returns the checksum of the
/// result: one pass over memory, in steps that stay in the cache. `from` must not change during the
/// call. Costs about 1.1 to 1.2 x memcpy of memory far larger than the caches, which `to` does not
/// enter. Threads read all of `from`.
Checksum copy_and_checksum(std::span<const Bytes> from, void* to);

}  // namespace trireme

namespace trireme::store {

// Small text files of two lines: what they say, and its checksum, {"xxh3_128":"..."}.

/// `line`, which ends with a newline, and the line with its checksum.
std::string with_checksum(std::string line);
/// The first line of such a text, with its newline. Throws: Error that begins with `what`.
std::string_view checked_line(std::string_view text, std::string_view what);

}  // namespace trireme::store
