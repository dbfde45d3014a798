// Checksums: published values, and the fused copy against copy and one-shot hash, for each
// instruction set.
#include "runtime/store/checksum.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/core/random.h"

#include "runtime/store/hashing.h"

namespace trireme::store {
namespace {

using Octets = std::vector<unsigned char>;

Octets random_bytes(Index count, std::uint64_t seed) {
  const Random random = random_for(seed, "checksum");
  Octets bytes(static_cast<std::size_t>(count));
  for (Index i = 0; i < count; ++i)
    bytes[static_cast<std::size_t>(i)] = static_cast<unsigned char>(random.uniform(i) * 256);
  return bytes;
}

std::vector<const Hashing*> runnable() {
  std::vector<const Hashing*> found;
  for (HashingSet set : {HashingSet::portable, HashingSet::avx2})
    if (const Hashing* hashing = find_hashing(set)) found.push_back(hashing);
  return found;
}

// Copies `parts` to a buffer that begins `misalignment` bytes behind a line, and checks bytes,
// neighbours and checksum.
void expect_copied(const Hashing& hashing, const std::vector<Bytes>& parts, Index misalignment) {
  Octets expected;
  for (const Bytes& part : parts) {
    const auto* data = static_cast<const unsigned char*>(part.data);
    if (data)
      expected.insert(expected.end(), data, data + part.count);
    else
      expected.insert(expected.end(), static_cast<std::size_t>(part.count), 0);
  }
  constexpr std::size_t guard = 64;
  Octets memory(expected.size() + 3 * guard, 0xee);
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.data());
  unsigned char* to = memory.data() + (guard - begin % guard) + misalignment;
  const Checksum sum =
      hashing.copy_and_checksum(parts.data(), static_cast<Index>(parts.size()), to);
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), to));
  EXPECT_EQ(to[-1], 0xee);
  EXPECT_EQ(to[expected.size()], 0xee);
  EXPECT_EQ(sum, checksum(expected.data(), static_cast<Index>(expected.size())))
      << expected.size() << " bytes, " << parts.size() << " parts, at " << misalignment;
}

TEST(Checksum, HasThePublishedValues) {
  // xxhsum -H2 of an empty file, and of "a" and "abc" (xxHash 0.8).
  for (const Hashing* hashing : runnable()) {
    EXPECT_EQ(to_text(hashing->checksum(nullptr, 0)), "99aa06d3014798d86001c324468d497f");
    EXPECT_EQ(to_text(hashing->checksum("a", 1)), "a96faf705af16834e6c632b61e964e1f");
    EXPECT_EQ(to_text(hashing->checksum("abc", 3)), "06b05ab6733a618578af5f94892f3950");
  }
  EXPECT_EQ(to_text(checksum("abc", 3)), "06b05ab6733a618578af5f94892f3950");
}

TEST(Checksum, IsTheSameForEveryInstructionSet) {
  const Octets data = random_bytes(300'000, 1);
  for (Index bytes : {0, 1, 3, 8, 9, 16, 17, 128, 129, 240, 241, 1024, 1025, 65'537, 300'000}) {
    const Checksum expected = find_hashing(HashingSet::portable)->checksum(data.data(), bytes);
    for (const Hashing* hashing : runnable())
      EXPECT_EQ(hashing->checksum(data.data(), bytes), expected) << bytes;
  }
}

TEST(Checksum, OfACopyEqualsTheOneShotHashForAllSizes) {
  const Octets data = random_bytes(20'000, 2);
  for (const Hashing* hashing : runnable()) {
    for (Index bytes = 0; bytes < 600; ++bytes)
      expect_copied(*hashing, {{data.data() + bytes % 7, bytes}}, bytes % 64);
    for (Index bytes : {2047, 2048, 2049, 4095, 4096, 4097, 8191, 12'345, 19'990})
      for (Index at : {0, 1, 31, 63}) expect_copied(*hashing, {{data.data() + 3, bytes}}, at);
  }
}

TEST(Checksum, OfACopyDoesNotDependOnHowItIsSplit) {
  const Octets data = random_bytes(40'000, 3);
  const Random random = random_for(4, "split");
  Index draw = 0;
  for (const Hashing* hashing : runnable())
    for (int round = 0; round < 100; ++round) {
      std::vector<Bytes> parts;
      for (Index at = 0; at < 40'000;) {
        const double scale = random.uniform(draw++) < 0.5f ? 20 : 6000;
        const Index bytes =
            std::min<Index>(40'000 - at, static_cast<Index>(random.uniform(draw++) * scale));
        parts.push_back({data.data() + at, bytes});
        at += bytes;
      }
      expect_copied(*hashing, parts, round % 64);
    }
}

TEST(Checksum, NullDataIsCopiedAsZeros) {
  const Octets data = random_bytes(5000, 5);
  for (const Hashing* hashing : runnable()) {
    expect_copied(*hashing, {{nullptr, 1}}, 0);
    expect_copied(*hashing, {{nullptr, 10'000}}, 5);
    expect_copied(*hashing,
                  {{data.data(), 5000},
                   {nullptr, 3},
                   {data.data() + 1, 7},
                   {nullptr, 70'001},
                   {data.data(), 1},
                   {nullptr, 0}},
                  9);
  }
}

TEST(Checksum, TextIsReadBackAndAnythingElseRefused) {
  const Checksum sum = {0x0123456789abcdefu, 0x00000000000000ffu};
  EXPECT_EQ(to_text(sum), "0123456789abcdef00000000000000ff");
  EXPECT_EQ(parse_checksum(to_text(sum)), sum);
  for (const char* wrong : {"", "0", "0123456789abcdef00000000000000f",
                            "0123456789abcdef00000000000000fff", "0123456789abcdeg00000000000000ff",
                            "0123456789abcdef-0000000000000ff", "0123456789abcdef 0000000000000ff",
                            "0x23456789abcdef00000000000000ff", "0123456789abcdef000000000000+0ff"})
    EXPECT_EQ(parse_checksum(wrong), std::nullopt) << wrong;
}

}  // namespace
}  // namespace trireme::store
