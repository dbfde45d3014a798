// Parts of check_options (options/options.h), and what they ask the file system.
#pragma once

#include <string>

#include "trireme/options/options.h"

namespace trireme {

void check_checkpoint_options(const CommandLine& command, const Options& options,
                              Problems& problems);

/// Of "a/b" and "a/b/": "a"; of "b": ".".
std::string parent_directory(const std::string& path);
/// Why no file can be made in a directory, or "".
std::string why_not_writable(const std::string& directory);
/// A directory that `option` will make, or write to: what is wrong with that.
void check_directory(const char* option, const std::string& path, const char* what_for,
                     Problems& problems);
/// The same place, whether it exists or not, and however it is written.
bool same_place(const std::string& a, const std::string& b);

}  // namespace trireme
