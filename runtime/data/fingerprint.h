// A hash of samples of a corpus: two corpora of the same size with the same samples share it.
#pragma once

#include <cstdint>

#include "trireme/data/token_file.h"

namespace trireme::data {

/// XXH3-64 of 64 blocks of 1024 tokens at fixed fractions of the file, of all tokens where these
/// are fewer. Tokens are hashed by value, so how they are stored does not matter.
std::uint64_t fingerprint(const TokenFile& file);

}  // namespace trireme::data
