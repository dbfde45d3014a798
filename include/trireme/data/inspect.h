// The implementation of `trireme data inspect`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trireme/data/sidecar.h"
#include "trireme/data/token_file.h"

namespace trireme {

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
  std::optional<Sidecar> sidecar;
};
/// Throws: Error when the files are damaged, or the sidecar is that of other tokens.
Inspection inspect(const std::string& prefix, Scan scan);
/// Describes tokens that no vocabulary can contain, those outside [0, 2^31 - 1]. Empty when there
/// are none.
std::string impossible_tokens(const Inspection& inspection);
/// Lines for people.
std::string describe(const Inspection& inspection);

}  // namespace trireme
