// AddedTokens: finds added tokens in text, before anything else is done with it.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "trireme/core/function_ref.h"

#include "runtime/data/tokenizer/tokenizer_definition.h"

namespace trireme::data {

class AddedTokens {
 public:
  struct Entry {
    std::string text;  // what is searched for, not empty
    Token token;
    bool left_strip, right_strip;
  };
  /// Of entries with the same text the first is found.
  explicit AddedTokens(std::vector<Entry> entries);

  /// Calls `between` for each text between added tokens, and `found` for these, in order. Of those
  /// that begin at one place the longest is found.
  void split(std::string_view text, FunctionRef<void(std::string_view)> between,
             FunctionRef<void(Token)> found) const;

 private:
  /// Where the next one begins, from `at` on, and which it is.
  const Entry* find(std::string_view text, std::size_t& at) const;
  const Entry* longest_at(std::string_view text) const;

  std::vector<Entry> entries_;        // sorted by text
  std::array<bool, 256> first_ = {};  // bytes that begin one
  char only_first_ = '\0';            // the only one of these, where there is only one
  bool one_first_ = false;
};

}  // namespace trireme::data
