// WordCache: the tokens of short pieces of text that a thread has met. A cache line each; what is
// full is overwritten.
#pragma once

#include <array>
#include <cstring>
#include <string_view>
#include <vector>

#include "runtime/data/tokenizer/tokenizer_definition.h"

namespace trireme::data {

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

}  // namespace trireme::data
