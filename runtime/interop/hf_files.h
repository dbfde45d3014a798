// Which files of a Hugging Face model directory a run keeps beside the weights, and which are code.
//
// Not installed; modules above may include it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "trireme/core/dtype.h"

namespace trireme::interop {

enum class HfFile {
  config,   // config.json
  weights,  // *.safetensors and their index
  kept,     // tokenizer, chat template, generation_config.json, licences
  code,     // *.py: never run
  not_used
};

/// By name alone.
HfFile kind_of(std::string_view name);

/// Whether a kept file of this name belongs to the tokenizer; the others belong to the weights.
bool is_of_tokenizer(std::string_view name);
/// The names of these files of `directory`, sorted. Throws: Error when one cannot be copied, as
/// below.
std::vector<std::string> tokenizer_files(const std::string& directory);
/// Whether a directory has what others read a tokenizer from.
bool has_tokenizer(const std::string& directory);

/// No file is kept, or read as a config.json, that is larger.
inline constexpr Index largest_kept_file = Index{256} << 20;

/// What keeps config.json and the kept files of `directory` from being copied, a sentence each that
/// begins with a name: it is no file, it is too large, or a link that leads to a file of another
/// name outside of the model. The links of the hub's cache, into its "blobs", are followed. Throws:
/// Error when the directory cannot be read.
std::vector<std::string> problems_of_kept_files(const std::string& directory);

/// Names of the files of `directory`, not of those below it, of one kind; sorted. Throws: Error
/// when it cannot be read.
std::vector<std::string> files_of_kind(const std::string& directory, HfFile kind);

}  // namespace trireme::interop
