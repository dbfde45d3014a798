#include "runtime/interop/hf_files.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>

#include "trireme/core/error.h"

#include "runtime/core/text/one_line.h"

namespace trireme::interop {
namespace {

namespace fs = std::filesystem;

/// `file` lies in `directory`, at any depth; both canonical.
bool is_inside(const fs::path& file, const fs::path& directory) {
  return std::mismatch(directory.begin(), directory.end(), file.begin(), file.end()).first ==
         directory.end();
}

/// The hub's cache has models--X/snapshots/REVISION/NAME -> ../../blobs/HASH.
bool is_followed(const fs::path& target, const fs::path& directory, const std::string& name) {
  return target.filename() == name || is_inside(target, directory) ||
         is_inside(target, directory.parent_path().parent_path() / "blobs");
}

/// "": none.
std::string problem_of_kept(const std::string& directory, const std::string& name) {
  std::error_code error;
  const fs::path path = fs::path(directory) / name;
  const fs::file_status status = fs::status(path, error);
  const bool link = fs::is_symlink(fs::symlink_status(path, error));
  if (status.type() == fs::file_type::not_found && link)
    return str("is a link to ", fs::read_symlink(path, error).string(),
               ", which is not there; copy the file here, or remove the link");
  if (!fs::is_regular_file(status)) return "is no file; remove it, or put the file in its place";
  const auto bytes = static_cast<Index>(fs::file_size(path, error));
  if (bytes > largest_kept_file)
    return str("has ", bytes, " bytes; a file of this name is copied, and has at most ",
               largest_kept_file);
  const fs::path target = fs::canonical(path, error), whole = fs::canonical(directory, error);
  if (!link || is_followed(target, whole, name)) return "";
  return str("is a link to ", target.string(), ", outside of the model; copy the file here");
}

}  // namespace

std::vector<std::string> problems_of_kept_files(const std::string& directory) {
  std::vector<std::string> problems;
  for (const HfFile kind : {HfFile::config, HfFile::kept})
    for (const std::string& name : files_of_kind(directory, kind))
      if (const std::string problem = problem_of_kept(directory, name); !problem.empty())
        problems.push_back(one_line(str(name, ' ', problem)));
  return problems;
}

bool is_of_tokenizer(std::string_view name) {
  constexpr std::array names = {"tokenizer.json", "added_tokens.json",   "tokenizer_config.json",
                                "vocab.json",     "merges.txt",          "special_tokens_map.json",
                                "tekken.json",    "chat_template.jinja", "chat_template.json"};
  return name.starts_with("tokenizer.model") ||  // of Mistral: tokenizer.model.v3
         std::find(names.begin(), names.end(), name) != names.end();
}

HfFile kind_of(std::string_view name) {
  constexpr std::array legal = {"licen", "notice", "copying", "use_policy", "use-policy"};
  if (name == "config.json") return HfFile::config;
  if (name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json"))
    return HfFile::weights;
  if (name.ends_with(".py")) return HfFile::code;
  std::string lower(name);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const bool licence = std::any_of(legal.begin(), legal.end(), [&](const char* word) {
    return lower.find(word) != std::string::npos;
  });
  return licence || is_of_tokenizer(name) || name == "generation_config.json" ? HfFile::kept
                                                                              : HfFile::not_used;
}

std::vector<std::string> tokenizer_files(const std::string& directory) {
  std::vector<std::string> names = files_of_kind(directory, HfFile::kept);
  std::erase_if(names, [](const std::string& name) { return !is_of_tokenizer(name); });
  for (const std::string& name : names) {
    const std::string problem = problem_of_kept(directory, name);
    require(problem.empty(), one_line(str(directory, ": ", name, ' ', problem)));
  }
  return names;
}

bool has_tokenizer(const std::string& directory) {
  const std::vector<std::string> names = files_of_kind(directory, HfFile::kept);
  return std::any_of(names.begin(), names.end(), [](const std::string& name) {
    return name == "tokenizer.json" || name.starts_with("tokenizer.model") ||
           name == "vocab.json" || name == "tekken.json";
  });
}

std::vector<std::string> files_of_kind(const std::string& directory, HfFile kind) {
  std::error_code error;
  std::vector<std::string> names;
  const std::filesystem::directory_iterator entries(directory, error);
  require(!error, directory, ": cannot be read as a directory: ", error.message());
  for (const auto& entry : entries)
    if (std::string name = entry.path().filename().string();
        !entry.is_directory(error) && kind_of(name) == kind)
      names.push_back(std::move(name));
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace trireme::interop
