// Where the programs make files: in few places, which look at what stands there before.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace trireme::layering {

struct MadeFile {
  int line;
  std::string call;  // that makes or replaces a file or directory
};

/// In a source, in the order of its lines.
std::vector<MadeFile> made_files_of(const std::string& text);

/// Sources that may, and whose files these are.
const std::map<std::string, std::string>& makers_of_files();

}  // namespace trireme::layering
