#include "tests/layering/fan_in.h"

#include <algorithm>
#include <fstream>
#include <regex>
#include <set>

#include <fmt/core.h>

namespace trireme::layering {
namespace {

namespace fs = std::filesystem;

// Fewer sources than this may include the header.
constexpr std::size_t family_limit = 25, learning_rate_limit = 10;
const std::string learning_rate = "runtime/optim/learning_rate.h";

// Where the build looks for what is included, besides the folder of the file that includes it.
const std::vector<std::string> include_folders = {"include", "", "kernels/cuda/toolkit",
                                                  "tests/cuda_emulation"};

bool is_source(const fs::path& path) {
  return path.extension() == ".cpp" || path.extension() == ".cu";
}
bool is_header(const fs::path& path) {
  return path.extension() == ".h" || path.extension() == ".cuh";
}

std::string text_of(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

class Tree {
 public:
  explicit Tree(const fs::path& root) : root_(root) {
    for (const char* folder : {"include", "runtime", "kernels", "examples", "launch", "tests"}) {
      if (!fs::exists(root / folder)) continue;
      for (const fs::path& path : fs::recursive_directory_iterator(root / folder)) {
        const std::string name = fs::relative(path, root).generic_string();
        if (name.find("/fixture/") == std::string::npos && (is_source(path) || is_header(path)))
          files_.insert(name);
      }
    }
    for (const std::string& file : files_) read(file);
  }

  const std::set<std::string>& files() const { return files_; }

  std::vector<std::string> sources_that_include(const std::string& header) const {
    std::set<std::string> seen;
    add_users(header, seen);
    std::vector<std::string> sources;
    std::copy_if(seen.begin(), seen.end(), std::back_inserter(sources),
                 [](const std::string& file) { return is_source(file); });
    return sources;
  }

 private:
  void read(const std::string& file) {
    static const std::regex include("#\\s*include\\s*[<\"]([^>\"]+)[>\"]");
    const std::string text = text_of(root_ / file);
    for (std::sregex_iterator i(text.begin(), text.end(), include), end; i != end; ++i)
      if (const std::string header = find(file, (*i)[1]); !header.empty())
        users_[header].insert(file);
  }

  /// The file of the tree that `what` means in `file`; "" for none.
  std::string find(const std::string& file, const std::string& what) const {
    std::vector<fs::path> folders = {fs::path(file).parent_path()};
    folders.insert(folders.end(), include_folders.begin(), include_folders.end());
    for (const fs::path& folder : folders)
      if (const auto name = (folder / what).lexically_normal().generic_string();
          files_.contains(name))
        return name;
    return "";
  }

  void add_users(const std::string& header, std::set<std::string>& seen) const {
    const auto users = users_.find(header);
    if (users == users_.end()) return;
    for (const std::string& user : users->second)
      if (seen.insert(user).second) add_users(user, seen);
  }

  fs::path root_;
  std::set<std::string> files_;                         // relative to the root
  std::map<std::string, std::set<std::string>> users_;  // header -> files that include it
};

/// A header with the function table of a family: `struct RotaryKernels {`.
bool is_family(const fs::path& root, const std::string& header) {
  static const std::regex table("struct \\w+Kernels \\{");
  return header.starts_with("include/trireme/kernels/") &&
         std::regex_search(text_of(root / header), table);
}

}  // namespace

std::map<std::string, std::vector<std::string>> sources_by_header(const fs::path& root) {
  const Tree tree(root);
  std::map<std::string, std::vector<std::string>> sources;
  for (const std::string& file : tree.files())
    if (is_header(file)) sources[file] = tree.sources_that_include(file);
  return sources;
}

std::vector<std::string> crowded_headers(const fs::path& root) {
  std::vector<std::string> found;
  for (const auto& [header, sources] : sources_by_header(root)) {
    const std::size_t limit = header == learning_rate   ? learning_rate_limit
                              : is_family(root, header) ? family_limit
                                                        : sources.size() + 1;
    if (sources.size() >= limit)
      found.push_back(fmt::format("{}: {} sources include it, must be below {}", header,
                                  sources.size(), limit));
  }
  return found;
}

}  // namespace trireme::layering
