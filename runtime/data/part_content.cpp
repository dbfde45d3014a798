#include "runtime/data/part_content.h"

#include <algorithm>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "trireme/data/sidecar.h"

namespace trireme::data {
namespace {

/// The document, counted from 1, in which a token lies.
Index document_of(const TokenFile& file, Index token) {
  Index low = 0, high = file.documents();  // document_begin(low) <= token < document_begin(high)
  while (high - low > 1) {
    const Index middle = low + (high - low) / 2;
    (file.document_begin(middle) <= token ? low : high) = middle;
  }
  return low + 1;
}

}  // namespace

std::optional<double> bytes_per_token(const TokenFile& file) {
  const std::optional<Sidecar> sidecar = read_sidecar(file);
  if (!sidecar || sidecar->text_bytes == 0) return std::nullopt;
  return sidecar->bytes_per_token();
}

TokenPart::Content content_of(const TokenFile& file, const TokenRange& range, Index samples) {
  return {file.prefix(),
          file.type(),
          range.count(),
          samples,
          document_of(file, range.begin),
          document_of(file, range.end - 1),
          file.documents()};
}

std::uint64_t fingerprint(const TokenFile& file) {
  constexpr Index blocks = 64, block_tokens = 1024;
  const Index block = std::min(block_tokens, (file.tokens() + blocks - 1) / blocks);
  std::vector<std::int64_t> tokens(static_cast<std::size_t>(block));
  std::uint64_t hash = static_cast<std::uint64_t>(file.tokens());
  for (Index b = 0; b < blocks && block > 0; ++b) {
    // The first block begins with the file, the last one ends with it; small files are covered.
    file.read((file.tokens() - block) * b / (blocks - 1), tokens);
    hash = XXH3_64bits_withSeed(tokens.data(), tokens.size() * sizeof(std::int64_t), hash);
  }
  return hash;
}

}  // namespace trireme::data
