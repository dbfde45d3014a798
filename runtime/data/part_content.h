// What a range of tokens of a file contains, for logs.
#pragma once

#include <cstdint>

#include "trireme/data/token_file.h"
#include "trireme/data/token_source.h"

namespace trireme::data {

/// By its sidecar; none where there is none, or no text in it.
std::optional<double> bytes_per_token(const TokenFile& file);

/// `samples`: of an epoch.
TokenPart::Content content_of(const TokenFile& file, const TokenRange& range, Index samples);

// A hash of samples of a corpus: two corpora of the same size with the same samples share it.

/// XXH3-64 of 64 blocks of 1024 tokens at fixed fractions of the file, of all tokens where these
/// are fewer. Tokens are hashed by value, so how they are stored does not matter.
std::uint64_t fingerprint(const TokenFile& file);

}  // namespace trireme::data
