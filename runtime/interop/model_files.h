// ModelFiles: a model directory of Hugging Face, opened and understood: its config, and which of
// its tensors holds which logical one. And what a run keeps of such a directory.
//
// Not installed; modules above may include it.
#pragma once

#include <string>
#include <vector>

#include "trireme/core/key_values.h"

#include "runtime/interop/hf_config.h"
#include "runtime/interop/names.h"

namespace trireme::interop {

struct ModelFiles {
  HfConfig config;
  safetensors::Directory files;
  std::vector<HfView> views;  // fit `files`
};

/// Returns what `directory` is in place of a model's directory, in one line behind its path: it is
/// not there, is a file, or is of another program. "": it has a config.json.
std::string why_no_model(const std::string& directory);

/// Reads config.json and the headers, and sees whether keep_files() can copy. Throws: Error with
/// everything that does not fit, a line each, behind the path.
ModelFiles open_model(const std::string& directory);

/// Adds a note where the tokenizer of a model directory needs code, which is not run.
void note_tokenizer_code(const std::string& directory, HfConfig& config);

/// What a run keeps in its directory of the model that it began with.
inline constexpr const char* kept_directory = "hf";

/// Throws: Error where RUN/hf is there and is not what a run keeps, so that it stays.
void check_kept_place(const std::string& run);
/// Copies config.json, the files of the tokenizer and licences of `model` to RUN/hf, and writes
/// `facts` beside them. What was there before is replaced at once, or stays.
void keep_files(const std::string& model, const std::string& run, const KeyValues& facts);
/// The facts of RUN/hf; empty where there is none. Throws: Error when they cannot be read.
KeyValues kept_facts(const std::string& run);
/// Copies RUN/hf of another run, if there is one. What is there already stays.
void keep_kept(const std::string& from_run, const std::string& run);

/// `directory` itself, or, where it has no config.json any more, what a run has kept of it; "" when
/// neither is there. `run`: "" without one.
std::string directory_of_config(const std::string& directory, const std::string& run);

}  // namespace trireme::interop
