// Parts of check_options (options/options.h), and their queries to the file system.
#pragma once

#include <string>

#include "trireme/options/options.h"

namespace trireme::options {

void check_checkpoint_options(const CommandLine& command, const Options& options,
                              Problems& problems);

/// Of "a/b" and "a/b/": "a"; of "b": ".".
std::string parent_directory(const std::string& path);
/// Why no file can be created in a directory, or "".
std::string why_not_writable(const std::string& directory);
/// What is wrong with a directory that `option` will create or write to.
void check_directory(const char* option, const std::string& path, const char* what_for,
                     Problems& problems);
/// A file that will be written: its directory must exist and be writable.
void check_writable(const char* option, const std::string& path, Problems& problems);
/// Whether both name the same place, whether it exists or not, and however they are written.
bool same_place(const std::string& a, const std::string& b);

}  // namespace trireme::options
