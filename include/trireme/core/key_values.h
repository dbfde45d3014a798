// KeyValues: names and values in display order, such as options or properties of a model.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace trireme {

using KeyValues = std::vector<std::pair<std::string, std::string>>;

}  // namespace trireme
