#include "trireme/options/problems.h"

#include <algorithm>

#include "runtime/options/field_names.h"

namespace trireme {

void Problems::add_lines(const std::string& title, const std::string& text) {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    add_text(title + text.substr(begin, end - begin));
    begin = end + 1;
  }
}

void Problems::add_text(const std::string& text) { all_.push_back(with_options(text)); }

}  // namespace trireme
