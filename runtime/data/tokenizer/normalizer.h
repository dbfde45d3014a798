// Normalizer: text as it is before it is cut into pieces.
#pragma once

#include <bitset>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/tokenizer/tokenizer_definition.h"

namespace trireme::data {

/// Appends `text` with `content` in place of each `pattern`, which is not empty. Throws: Error when
/// that makes `out` longer than `most` bytes.
void replace_all(std::string_view text, const std::string& pattern, const std::string& content,
                 std::size_t most, std::string& out);

/// Unicode's NFC, by utf8proc.
class Nfc {
 public:
  Nfc();
  /// `text` is valid UTF-8. Returns: `text` itself when nothing changes; else `memory` holds it.
  std::string_view apply(std::string_view text, std::string& memory) const;

 private:
  static constexpr char32_t planes = 0x30000;  // nothing behind them changes
  bool is_stable(char32_t character) const { return character >= planes || stable_[character]; }
  std::bitset<planes> stable_;  // it stays, whatever is before it
};

class Normalizer {
 public:
  explicit Normalizer(const std::vector<NormalizerStep>& steps);

  struct Memory {
    std::string now, next;
  };
  /// Returns: `text` itself when nothing changes; else `memory` holds it.
  std::string_view apply(std::string_view text, Memory& memory) const;

 private:
  std::vector<NormalizerStep> steps_;
  std::optional<Nfc> nfc_;
};

}  // namespace trireme::data
