// Comments of headers that are no sentences: "Of a step: ...", "As above.", "x;  // of a rank".
#pragma once

#include <string>
#include <vector>

namespace trireme::layering {

/// The lines of a header on which a comment begins with "Of", "As" or "The same", or on which one
/// behind code begins with "of".
std::vector<int> lines_of_fragments(const std::string& text);

}  // namespace trireme::layering
