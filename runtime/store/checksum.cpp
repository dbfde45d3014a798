// Checksums as values and text, and which of the compiled loops of simd/ this machine runs.
#include "runtime/store/checksum.h"

#include <fmt/format.h>

#include "trireme/core/error.h"

#include "runtime/core/parse_number.h"
#include "runtime/store/hashing.h"

namespace trireme::store {

namespace portable {
extern const Hashing hashing;
}
#if defined(TRIREME_SIMD_X86)
namespace avx2 {
extern const Hashing hashing;
}
#endif

const Hashing* find_hashing(HashingSet set) {
  if (set == HashingSet::portable) return &portable::hashing;
#if defined(TRIREME_SIMD_X86)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return &avx2::hashing;
#endif
  return nullptr;
}

}  // namespace trireme::store

namespace trireme {

using namespace store;

namespace {

const Hashing& best_hashing() {
  const Hashing* wide = find_hashing(HashingSet::avx2);
  return wide ? *wide : *find_hashing(HashingSet::portable);
}

}  // namespace

Checksum checksum(const void* data, Index bytes) { return best_hashing().checksum(data, bytes); }

Checksum copy_and_checksum(std::span<const Bytes> from, void* to) {
  return best_hashing().copy_and_checksum(from.data(), static_cast<Index>(from.size()), to);
}

std::string to_text(const Checksum& sum) {
  return fmt::format("{:016x}{:016x}", sum.high, sum.low);
}

std::optional<Checksum> parse_checksum(std::string_view text) {
  if (text.size() != 32) return std::nullopt;
  const auto high = parse_number<std::uint64_t>(text.substr(0, 16), 16),
             low = parse_number<std::uint64_t>(text.substr(16), 16);
  if (!high || !low) return std::nullopt;
  return Checksum{*high, *low};
}

}  // namespace trireme

namespace trireme::store {
namespace {

constexpr std::string_view sum_before = R"({"xxh3_128":")", sum_after = "\"}\n";

std::string last_line(std::string_view first_line) {
  const Checksum sum = checksum(first_line.data(), static_cast<Index>(first_line.size()));
  return str(sum_before, to_text(sum), sum_after);
}

}  // namespace

std::string with_checksum(std::string line) {
  const std::string last = last_line(line);
  return std::move(line) + last;
}

std::string_view checked_line(std::string_view text, std::string_view what) {
  const std::size_t end = text.find('\n');
  require(end != std::string_view::npos, what, " is cut short: its first line does not end");
  const std::string_view first = text.substr(0, end + 1);
  // Compared as text, so that no byte of the last line may differ either.
  require(text.substr(end + 1) == last_line(first), what,
          " is damaged or cut short: its checksum does not hold");
  return first;
}

}  // namespace trireme::store
