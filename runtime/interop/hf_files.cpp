#include "runtime/interop/hf_files.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "trireme/core/error.h"

namespace trireme::interop {

HfFile kind_of(std::string_view name) {
  constexpr std::array kept = {"generation_config.json",  "tokenizer.json",    "added_tokens.json",
                               "tokenizer_config.json",   "vocab.json",        "merges.txt",
                               "special_tokens_map.json", "tokenizer.model",   "tekken.json",
                               "chat_template.jinja",     "chat_template.json"};
  constexpr std::array beginnings = {"LICENSE", "LICENCE", "NOTICE", "USE_POLICY"};
  if (name == "config.json") return HfFile::config;
  if (name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json"))
    return HfFile::weights;
  if (name.ends_with(".py")) return HfFile::code;
  const bool licence = std::any_of(beginnings.begin(), beginnings.end(),
                                   [&](const char* word) { return name.starts_with(word); });
  return licence || std::find(kept.begin(), kept.end(), name) != kept.end() ? HfFile::kept
                                                                            : HfFile::not_used;
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
