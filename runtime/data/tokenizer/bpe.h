// Bpe: byte-pair encoding of one piece of text. Of all pairs of neighbours that a merge names, the
// merge that comes first in the file is done, leftmost first, until none is left.
#pragma once

#include <array>
#include <functional>
#include <queue>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/core/process/free_memory.h"
#include "runtime/data/tokenizer/tokenizer_definition.h"

namespace trireme::data {

/// What may be done to a pair of neighbours. Merges of lower rank come first.
struct RankedMerge {
  std::uint32_t rank;
  Token whole;
};
inline constexpr RankedMerge no_merge = {~std::uint32_t{0}, -1};

/// The merges of a definition, by their two parts.
class MergeTable {
 public:
  explicit MergeTable(const std::vector<Merge>& merges);
  RankedMerge find(Token left, Token right) const {
    const std::uint64_t pair = key(left, right);
    for (std::size_t at = slot(pair);; at = (at + 1) & mask_) {
      if (slots_[at].pair == pair) return slots_[at].merge;
      if (slots_[at].pair == empty) return no_merge;
    }
  }

 private:
  static constexpr std::uint64_t empty = ~std::uint64_t{0};
  struct Slot {
    std::uint64_t pair = empty;
    RankedMerge merge = no_merge;
  };
  static std::uint64_t key(Token left, Token right) {
    return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
  }
  std::size_t slot(std::uint64_t pair) const {
    return static_cast<std::size_t>((pair * 0x9E3779B97F4A7C15u) >> 29) & mask_;
  }
  std::vector<Slot> slots_;
  std::size_t mask_;
};

class Bpe {
 public:
  explicit Bpe(const TokenizerDefinition& definition);

  /// Memory of one thread.
  struct Memory {
    struct Candidate {
      std::uint32_t rank, at;
      Token left, right, whole;
      bool operator>(const Candidate& other) const {
        return rank != other.rank ? rank > other.rank : at > other.at;
      }
    };
    std::vector<Token> symbols;
    std::vector<RankedMerge> merges;            // of a symbol and the next one
    std::vector<std::uint32_t> before, behind;  // neighbours in a long piece
    std::vector<Candidate> queue;
    std::function<void()> while_encoding;  // Tokenizer::Scratch::while_encoding
    std::function<Index()> free_memory = [] { return trireme::free_memory(); };
    void pause() const {
      if (while_encoding) while_encoding();
    }
  };
  /// The tokens of a piece (valid UTF-8, not empty). They stay in `memory` until the next call.
  /// Throws: Error where a long piece would need more memory than is free.
  const std::vector<Token>& encode(std::string_view piece, Memory& memory) const;

  /// No token has a space mark behind another character, so cutting there changes no token.
  bool marks_begin_words() const { return marks_begin_words_; }

 private:
  void add_symbols(std::string_view piece, std::vector<Token>& symbols) const;
  void merge_short(Memory& memory) const;
  void merge_long(Memory& memory) const;
  void offer(std::uint32_t at, Memory& memory) const;

  TokenizerDefinition::Symbols kind_;
  Token unknown_;
  bool fuse_unknown_;
  std::array<Token, 256> bytes_;  // -1: no text has it, or there are none
  std::unordered_map<char32_t, Token> characters_;
  std::unordered_map<std::string, Token> words_;  // where whole words come first
  MergeTable merges_;
  bool marks_begin_words_;
};

}  // namespace trireme::data
