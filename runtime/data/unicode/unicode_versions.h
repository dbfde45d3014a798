// Versions of Unicode differ in what a character is. Tokens must not: they are those of the package
// `tokenizers`, whose regular expressions know Unicode 16 and whose normal forms know Unicode 9,
// whatever version PCRE2 and utf8proc of this machine know (from 14 on).
#pragma once

#include <string>
#include <string_view>

namespace trireme::data {

/// `text` with other characters where PCRE2 may see another category than Unicode 16: characters of
/// the right category, near by, and of as many bytes. Usually `text` itself; else `memory` holds
/// it.
std::string_view with_known_characters(std::string_view text, std::string& memory);

/// It came after Unicode 9 and has a decomposition or a combining class, so that normal forms must
/// leave it alone.
bool is_newer_than_forms(char32_t character);

}  // namespace trireme::data
