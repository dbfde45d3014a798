// The regular expressions of pre-tokenizers, by PCRE2. tokenizer.json has them in the syntax of
// Oniguruma: what both understand alike is accepted, all else is refused. Their classes of
// characters differ by version of Unicode, which a version of this text evens out.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace trireme::data {

/// The pattern of ByteLevel.
extern const char* const gpt2_pattern;

/// Why a pattern cannot be used; empty when it can.
std::string problem_of_pattern(const std::string& pattern);

/// The pattern that matches `text` alone.
std::string escaped_pattern(std::string_view text);

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

  /// Throws: Error when it is none.
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
