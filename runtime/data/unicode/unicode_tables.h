// Where versions of Unicode differ: tables that tests/data/tokenizer/make_unicode_tables makes. All
// are sorted.
#pragma once

#include <algorithm>
#include <span>

namespace trireme::data {

struct CharacterRange {
  char32_t first, last;
};
struct ChangedCategory {
  char32_t first, last;
  char32_t stand_in;  // a character near by, of the category in Unicode 16, and of as many bytes
};
struct LowerCase {
  char32_t first, last;
  int distance;  // from a character to its lower case
};

/// Characters whose category is another one in Unicode 14, or is seen as another one by PCRE2.
std::span<const ChangedCategory> changed_categories();

/// Characters after Unicode 9 that have a decomposition, are part of one, or combine.
std::span<const CharacterRange> newer_than_forms();

/// What the pre-tokenizer Punctuation and the normalizer StripAccents of the package look for.
std::span<const CharacterRange> punctuation_characters();
std::span<const CharacterRange> accent_characters();

/// Characters whose lower case came after Unicode 14.
std::span<const LowerCase> newer_lower_cases();

/// The range that holds a character; null when there is none.
template <class Range>
const Range* range_of(std::span<const Range> ranges, char32_t character) {
  const auto found =
      std::lower_bound(ranges.begin(), ranges.end(), character,
                       [](const Range& range, char32_t c) { return range.last < c; });
  return found != ranges.end() && found->first <= character ? &*found : nullptr;
}

}  // namespace trireme::data
