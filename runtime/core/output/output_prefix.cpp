#include "runtime/core/output/output_prefix.h"

#include <filesystem>

namespace trireme {

std::string why_no_prefix(const std::string& prefix) {
  std::error_code unknown;
  const std::filesystem::file_status there = std::filesystem::status(prefix, unknown);
  if (!std::filesystem::exists(there) || std::filesystem::is_regular_file(there)) return "";
  return std::filesystem::is_directory(there)
             ? "is a directory: give the beginning of a name in it"
             : "is no plain file, but the beginning of names is asked for";
}

}  // namespace trireme
