// Which files of a Hugging Face model directory a run keeps beside the weights, and which are code.
//
// Not installed; modules above may include it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

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

/// Names of the files of `directory`, not of those below it, of one kind; sorted. Throws: Error
/// when it cannot be read.
std::vector<std::string> files_of_kind(const std::string& directory, HfFile kind);

}  // namespace trireme::interop
