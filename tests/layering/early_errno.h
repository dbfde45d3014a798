// Where errno is read among the arguments of `require`: the order of arguments is the compiler's,
// so errno may be read before the call that sets it.
#pragma once

#include <string>
#include <vector>

namespace trireme::layering {

/// The lines on which such a `require` begins, found in the text of a source file alone.
std::vector<int> lines_of_early_errno(const std::string& text);

}  // namespace trireme::layering
