// Bpe: byte-pair encoding of one piece of text. Of all pairs of neighbours that a merge names, the
// merge that comes first in the file is done, leftmost first, until none is left.
#pragma once

#include <array>
#include <cstring>
#include <functional>
#include <queue>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/core/process/this_machine.h"
#include "runtime/data/tokenizer/tokenizer_definition.h"

namespace trireme::data {

/// WordCache: the tokens of short pieces of text that a thread has met. A cache line each; what is
/// full is overwritten.
class WordCache {
 public:
  static constexpr std::size_t longest_word = 31;  // bytes
  static constexpr std::size_t most_tokens = 7;

  /// A word of at most longest_word bytes, zeros behind it, and its length.
  struct Key {
    std::array<std::uint64_t, 4> words;
    bool operator==(const Key& other) const {
      return ((words[0] ^ other.words[0]) | (words[1] ^ other.words[1]) |
              (words[2] ^ other.words[2]) | (words[3] ^ other.words[3])) == 0;
    }
  };
  struct alignas(64) Entry {
    Key key = {};
    std::array<Token, most_tokens> tokens = {};
    std::int32_t count = 0;
  };

  WordCache() : entries_(std::size_t{1} << bits) {}
  void clear() { std::fill(entries_.begin(), entries_.end(), Entry()); }

  static Key key_of(std::string_view word, const char* readable_end) {
    Key key;
    if (static_cast<std::size_t>(readable_end - word.data()) >= sizeof key) {
      std::memcpy(&key, word.data(), sizeof key);
      Key mask;
      std::memcpy(&mask, &masks[sizeof key - word.size()], sizeof mask);
      for (std::size_t i = 0; i < 4; ++i) key.words[i] &= mask.words[i];
    } else {
      key = {};
      std::memcpy(&key, word.data(), word.size());
    }
    reinterpret_cast<unsigned char*>(&key)[longest_word] = static_cast<unsigned char>(word.size());
    return key;
  }
  /// The entry of this word; where its key is another one, the entry to be overwritten.
  Entry& entry(const Key& key) {
    const std::uint64_t a = (key.words[0] ^ 0x9E3779B97F4A7C15u) * 0xFF51AFD7ED558CCDu;
    const std::uint64_t b = (key.words[1] + key.words[2] * 3) * 0xC4CEB9FE1A85EC53u;
    const std::uint64_t mixed = (a ^ (a >> 32) ^ b ^ key.words[3]) * 0x9E3779B97F4A7C15u;
    const std::size_t at = static_cast<std::size_t>(mixed >> (64 - bits));
    Entry& first = entries_[at];
    if (first.key == key) return first;
    Entry& second = entries_[at ^ 1];
    if (second.key == key || first.count != 0) return second;
    return first;
  }

 private:
  static constexpr int bits = 16;  // 4 MiB
  static constexpr std::array<unsigned char, 64> masks = [] {
    std::array<unsigned char, 64> bytes = {};
    for (std::size_t i = 0; i < 32; ++i) bytes[i] = 0xFF;
    return bytes;
  }();
  std::vector<Entry> entries_;
};

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
    std::vector<RankedMerge> merges;            // one per symbol: its merge with the next one
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
