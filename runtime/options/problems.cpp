#include "trireme/options/problems.h"

#include <algorithm>

namespace trireme {

void Problems::add_lines(const std::string& title, const std::string& text) {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    add(title, text.substr(begin, end - begin));
    begin = end + 1;
  }
}

}  // namespace trireme
