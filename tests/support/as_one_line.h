// Text that is wrapped at spaces, as one line.
#pragma once

#include <string>

namespace trireme {

/// Each run of spaces and ends of lines becomes a space, none at the beginning.
inline std::string as_one_line(const std::string& text) {
  std::string line;
  for (const char c : text)
    if ((c != '\n' && c != ' ') || (!line.empty() && line.back() != ' '))
      line += c == '\n' ? ' ' : c;
  return line;
}

}  // namespace trireme
