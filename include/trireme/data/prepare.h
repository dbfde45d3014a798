// The implementation of `trireme data prepare` and `trireme data inspect`.
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
/// Converts text to byte tokens: vocabulary 256, stored as u8, one document per file, nothing added
/// or left out. Writes PREFIX.bin and PREFIX.idx completely or not at all. Calls `progress` with
/// the bytes done and the total bytes. Throws: Error that names a missing, empty or non-regular
/// file, or reports that the disk is full.
Prepared prepare_bytes(const std::vector<std::string>& inputs, const std::string& prefix,
                       FunctionRef<void(Index done, Index total)> progress);
Prepared prepare_bytes(const std::vector<std::string>& inputs, const std::string& prefix);

enum class Scan { index, every_token };

/// Statistics of all tokens of a file; only with Scan::every_token.
struct TokenStatistics {
  struct Frequent {
    Index token, count;
  };
  Index smallest = 0, largest = 0;
  Index smallest_position = 0, largest_position = 0;  // first occurrence
  Index distinct = 0;
  double entropy_bits = 0;         // per token, from the frequencies alone
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
/// Describes tokens that no vocabulary can contain, those outside [0, 2^31 - 1]. Empty when there
/// are none.
std::string impossible_tokens(const Inspection& inspection);
/// Lines for people.
std::string describe(const Inspection& inspection);

}  // namespace trireme
