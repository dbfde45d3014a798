#include "runtime/data/unicode/unicode_versions.h"

#include <bitset>

#include "runtime/data/unicode/unicode_tables.h"
#include "runtime/data/unicode/utf8.h"

namespace trireme::data {
namespace {

constexpr int page_bits = 8;
using Pages = std::bitset<(0x110000 >> page_bits)>;

Pages pages_with_changes() {
  Pages pages;
  for (const ChangedCategory& range : changed_categories())
    for (char32_t page = range.first >> page_bits; page <= range.last >> page_bits; ++page)
      pages.set(page);
  return pages;
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
        append_character(range->stand_in, other);
        memory.replace(static_cast<std::size_t>(at - text.data()), bytes, other);
      }
    }
    at += bytes;
  }
  return copied ? std::string_view(memory) : text;
}

bool is_newer_than_forms(char32_t character) {
  return range_of(newer_than_forms(), character) != nullptr;
}

}  // namespace trireme::data
