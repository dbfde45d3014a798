#include "runtime/data/unicode/unicode_versions.h"

#include <algorithm>
#include <bitset>

#include "runtime/data/unicode/unicode_tables.h"
#include "runtime/data/unicode/utf8.h"

namespace trireme::data {
namespace {

/// Characters of a category in every version since Unicode 13, of three bytes and of four.
char32_t stand_in(Category category, bool four_bytes) {
  switch (category) {
    case Category::Cf:
      return four_bytes ? 0x1D173 : 0x200B;
    case Category::Ll:
      return four_bytes ? 0x10428 : 0x1E01;
    case Category::Lm:
      return four_bytes ? 0x16B40 : 0x1D2C;
    case Category::Lo:
      return four_bytes ? 0x10000 : 0x0E01;
    case Category::Lu:
      return four_bytes ? 0x10400 : 0x1E00;
    case Category::Mc:
      return four_bytes ? 0x1D165 : 0x0903;
    case Category::Mn:
      return four_bytes ? 0x1D167 : 0x0901;
    case Category::Nd:
      return four_bytes ? 0x1D7CE : 0x0966;
    case Category::No:
      return four_bytes ? 0x10107 : 0x2460;
    case Category::Pd:
      return four_bytes ? 0x10EAD : 0x2010;
    case Category::Po:
      return four_bytes ? 0x10100 : 0x0964;
    case Category::Sm:
      return four_bytes ? 0x1D6C1 : 0x2200;
    case Category::So:
      return four_bytes ? 0x1F300 : 0x2600;
  }
  return 0;
}

constexpr int page_bits = 8;
using Pages = std::bitset<(0x110000 >> page_bits)>;

Pages pages_with_changes() {
  Pages pages;
  for (const ChangedCategory& range : changed_categories())
    for (char32_t page = range.first >> page_bits; page <= range.last >> page_bits; ++page)
      pages.set(page);
  return pages;
}

/// The range that holds a character; null when there is none.
template <class Range>
const Range* range_of(std::span<const Range> ranges, char32_t character) {
  const auto found =
      std::lower_bound(ranges.begin(), ranges.end(), character,
                       [](const Range& range, char32_t c) { return range.last < c; });
  return found != ranges.end() && found->first <= character ? &*found : nullptr;
}

}  // namespace

std::string_view with_known_characters(std::string_view text, std::string& memory) {
  static const Pages pages = pages_with_changes();
  bool copied = false;
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at != end;) {
    const std::size_t bytes = character_bytes(*at);
    if (bytes >= 3) {
      const char32_t character = character_at(at);
      const ChangedCategory* range =
          pages[character >> page_bits] ? range_of(changed_categories(), character) : nullptr;
      if (range != nullptr) {
        if (!copied) memory = text;
        copied = true;
        std::string other;
        append_character(stand_in(range->category, bytes == 4), other);
        memory.replace(static_cast<std::size_t>(at - text.data()), bytes, other);
      }
    }
    at += bytes;
  }
  return copied ? std::string_view(memory) : text;
}

bool is_newer_than_nfc(char32_t character) {
  return range_of(newer_than_nfc(), character) != nullptr;
}

}  // namespace trireme::data
