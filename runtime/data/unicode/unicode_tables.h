// Where versions of Unicode differ: tables that tests/data/tokenizer/make_unicode_tables makes.
#pragma once

#include <span>

namespace trireme::data {

enum class Category { Cf, Ll, Lm, Lo, Lu, Mc, Mn, Nd, No, Pd, Po, Sm, So };

struct CharacterRange {
  char32_t first, last;
};
struct ChangedCategory {
  char32_t first, last;
  Category category;  // in Unicode 16
};

/// Characters whose category is another one in Unicode 14, or is seen as another one by PCRE2.
std::span<const ChangedCategory> changed_categories();

/// Characters after Unicode 9 that have a decomposition, are part of one, or combine.
std::span<const CharacterRange> newer_than_nfc();

}  // namespace trireme::data
