// The regular expressions of pre-tokenizers and normalizers, by PCRE2. tokenizer.json has them in
// the syntax of Oniguruma: what means something else to PCRE2 is translated, or refused. Their
// classes of characters differ by version of Unicode, which a version of the text evens out.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "runtime/data/unicode/unicode_tables.h"

namespace trireme::data {

/// The pattern of ByteLevel.
extern const char* const gpt2_pattern;

/// The pattern that matches `text` alone, and the one that matches a character of `ranges`.
std::string escaped_pattern(std::string_view text);
std::string class_pattern(std::span<const CharacterRange> ranges);

struct PatternText {
  std::string text;
  bool sees_categories = false;  // whether it has \p{L}, \s and the like
};
/// `pattern` as PCRE2 needs it. Throws: Error with what in it is not understood.
PatternText pattern_of_pcre2(std::string_view pattern);

/// A compiled pattern. Threads may share it.
class Pattern {
 public:
  /// Memory of one search. At most 1 MiB.
  class Search {
   public:
    explicit Search(const Pattern& pattern);

    struct Match {
      std::size_t begin, end;
    };
    /// Finds the matches in `text` (valid UTF-8, which must stay) from now on.
    void start(std::string_view text);
    /// The next one, or false. An empty match right behind another one is left out. Throws: Error
    /// when it takes too many steps.
    bool next(Match& match);

   private:
    struct State;
    struct Delete {
      void operator()(State* state) const;
    };
    bool search_from(std::size_t offset, Match& match);

    const Pattern* pattern_;
    std::unique_ptr<State, Delete> state_;
    std::string_view text_;  // what is searched
    std::string stand_in_;   // its copy, where characters are replaced
    std::size_t from_ = 0, last_end_ = 0;
    bool matched_ = false;
  };

  /// `text`: in the syntax of Oniguruma. Throws: Error with what in it is not understood.
  explicit Pattern(const std::string& text);

 private:
  struct Code;
  struct Delete {
    void operator()(Code* code) const;
  };
  std::unique_ptr<Code, Delete> code_;
  std::string text_;
};

}  // namespace trireme::data
