// KeyValues: names and values in the order in which they are shown: options, facts of a model.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace trireme {

using KeyValues = std::vector<std::pair<std::string, std::string>>;

}  // namespace trireme
