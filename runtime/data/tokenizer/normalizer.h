// Normalizer: text as it is before it is cut into pieces.
#pragma once

#include <bitset>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/data/tokenizer/pretokenizer_pattern.h"
#include "runtime/data/tokenizer/tokenizer_definition.h"

namespace trireme::data {

/// Appends `text` with `content` in place of each `pattern`, which is not empty. Throws: Error when
/// that makes `out` longer than `most` bytes.
void replace_all(std::string_view text, const std::string& pattern, const std::string& content,
                 std::size_t most, std::string& out);

/// One of Unicode's normal forms, by utf8proc.
class NormalForm {
 public:
  /// `compatible`: NFKC and NFKD.
  NormalForm(bool composed, bool compatible);
  /// `text` is valid UTF-8. Returns: `text` itself when nothing changes; else `memory` holds it.
  std::string_view apply(std::string_view text, std::string& memory) const;

 private:
  static constexpr char32_t planes = 0x30000;  // nothing behind them changes
  bool is_stable(char32_t character) const { return character >= planes || stable_[character]; }
  void append_form(std::string_view text, std::string& out) const;
  bool composed_, compatible_;
  std::bitset<planes> stable_;  // it stays, whatever is before it
};

class Normalizer {
 public:
  explicit Normalizer(const std::vector<NormalizerStep>& steps);

  /// Memory of one thread.
  struct Memory {
    std::string now, next;
    std::vector<Pattern::Search> searches;  // for the steps that replace matches, in order
    bool left_out_beginning = false;        // whether the last text lost its beginning
  };
  Memory make_memory() const;
  /// Returns: `text` itself when nothing changes; else `memory`, of make_memory(), holds it.
  std::string_view apply(std::string_view text, Memory& memory) const;

 private:
  struct Step {
    NormalizerStep definition;
    std::unique_ptr<NormalForm> form;
    std::size_t search = 0;
  };
  std::string_view changed(const Step& step, std::string_view text, Memory& memory) const;

  std::vector<Step> steps_;
  std::vector<Pattern> patterns_;
};

}  // namespace trireme::data
