// Files that are no text though nothing says so: archives, compressed and encoded data, tables,
// pictures, programs. As a corpus they would be rubbish.
#pragma once

#include <string>
#include <string_view>

namespace trireme::data {

/// Bytes of the beginning of a file that other_format() looks at.
inline constexpr std::size_t longest_mark = 512;

/// What a file is that begins so, and how its text is to be had: "xz data; ...". Empty: it may be
/// text. `name`: of the file, for the command that is shown.
std::string other_format(std::string_view begin, const std::string& name);

}  // namespace trireme::data
