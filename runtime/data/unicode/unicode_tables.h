// Where versions of Unicode differ: tables that tests/data/tokenizer/make_unicode_tables makes. All
// are sorted.
#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

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

// Versions of Unicode differ in what a character is. Tokens must not: they are those of the package
// `tokenizers`, whose regular expressions know Unicode 16 and whose normal forms know Unicode 9,
// whatever version PCRE2 and utf8proc of this machine know (from 14 on).

/// `text` with other characters where PCRE2 may see another category than Unicode 16: characters of
/// the right category, near by, and of as many bytes. Usually `text` itself; else `memory` holds
/// it.
std::string_view with_known_characters(std::string_view text, std::string& memory);

/// It came after Unicode 9 and has a decomposition or a combining class, so that normal forms must
/// leave it alone.
bool is_newer_than_forms(char32_t character);

}  // namespace trireme::data
