// Small text files of two lines: what they say, and its checksum, {"xxh3_128":"..."}.
#pragma once

#include <string>
#include <string_view>

namespace trireme::store {

/// `line`, which ends with a newline, and the line with its checksum.
std::string with_checksum(std::string line);
/// The first line of such a text, with its newline. Throws: Error that begins with `what`.
std::string_view checked_line(std::string_view text, std::string_view what);

}  // namespace trireme::store
