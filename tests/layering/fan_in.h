// How many sources a change of a header compiles again, from the #include lines alone.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace trireme::layering {

/// The sources (.cpp, .cu) of a tree that include each header, directly or through other headers.
/// Keys and values are paths below `root`. A source that the build compiles several times counts
/// once.
std::map<std::string, std::vector<std::string>> sources_by_header(
    const std::filesystem::path& root);

/// One sentence for each header that too many sources include: that of a family of kernels
/// (include/trireme/kernels/<family>.h), or runtime/optim/learning_rate.h. Sorted.
std::vector<std::string> crowded_headers(const std::filesystem::path& root);

}  // namespace trireme::layering
