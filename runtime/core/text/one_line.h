// Text of files that anybody may have written, as a part of a message.
//
// Not installed; modules above may include it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace trireme {

/// Returns the text with control characters, which end a line or command a terminal, written as
/// \x1b. Of more than `most` bytes the first ones, and how many there are.
std::string one_line(std::string_view text, std::size_t most = 500);
/// Returns a text of several lines with its control characters written so, but for ends of lines
/// and tabs.
std::string printable(std::string_view text);

/// Bytes that a message shows of a name.
inline constexpr std::size_t most_of_a_name = 60;

}  // namespace trireme
