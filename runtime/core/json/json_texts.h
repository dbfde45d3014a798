// Members of JSON objects that are text, for files with a great many objects.
//
// Not installed; modules above may include it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme {

/// Reads those members of a JSON object that `names` lists, in this order; others may have any
/// values. Holds nothing else in memory. Throws: Error that says at which byte, when `text` is not
/// a JSON object in UTF-8 (a half of a surrogate pair is not), or which member is missing, not
/// text, or there twice.
void read_texts(std::string_view text, std::span<const std::string> names,
                std::vector<std::string>& texts);

/// Returns the names of the members of a JSON object, in their order; none where `text` is another
/// value, or is not JSON.
std::vector<std::string> names_of_members(std::string_view text);

}  // namespace trireme
