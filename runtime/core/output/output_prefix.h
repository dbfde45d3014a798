// Paths of which a user gives the beginning: PREFIX of PREFIX.bin.
//
// Not installed; modules above may include it.
#pragma once

#include <string>

namespace trireme {

/// Why `prefix` can hardly be meant as the beginning of names, as the end of a sentence that begins
/// with it; "": a file may have that name, as "book" beside "book.bin".
std::string why_no_prefix(const std::string& prefix);

}  // namespace trireme
