// What `trireme data prepare` and `trireme data inspect` do.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trireme/core/function_ref.h"
#include "trireme/data/token_file.h"

namespace trireme {

struct Prepared {
  Index documents = 0, tokens = 0;
};
/// Text to byte tokens: vocabulary 256, stored as u8, one document a file, nothing added or left
/// out. Writes PREFIX.bin and PREFIX.idx, whole or not at all. `progress` is told bytes done and
/// bytes in all. Throws: Error that names a file that is missing, empty or no regular file, or says
/// that the disk is full.
Prepared prepare_bytes(const std::vector<std::string>& inputs, const std::string& prefix,
                       FunctionRef<void(Index done, Index total)> progress);
Prepared prepare_bytes(const std::vector<std::string>& inputs, const std::string& prefix);

enum class Scan { index, every_token };

/// What all tokens of a file say; only after Scan::every_token.
struct TokenStatistics {
  struct Frequent {
    Index token, count;
  };
  Index smallest = 0, largest = 0;
  Index smallest_position = 0, largest_position = 0;  // where they first stand
  Index distinct = 0;
  double entropy_bits = 0;         // per token, of the frequencies alone
  std::vector<Frequent> frequent;  // the ten most frequent, most frequent first
};

struct Inspection {
  std::string prefix;
  TokenType type = TokenType::u8;
  Index sequences = 0, documents = 0, tokens = 0;
  Index shortest_document = 0, longest_document = 0;  // tokens
  std::optional<TokenStatistics> statistics;
};
/// Throws: Error when the files are damaged.
Inspection inspect(const std::string& prefix, Scan scan);
/// What no vocabulary can hold: tokens are the numbers of its entries, from 0 to 2^31 - 1. Empty
/// when all could be.
std::string impossible_tokens(const Inspection& inspection);
/// Lines for people.
std::string describe(const Inspection& inspection);

}  // namespace trireme
