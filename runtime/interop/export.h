// A step of a run as files of others: a model directory of Hugging Face, or one safetensors file
// with logical names.
//
// Not installed; modules above may include it.
#pragma once

#include <optional>
#include <string>

#include "trireme/models/transformer_config.h"

#include "runtime/store/inspect/inspect.h"
#include "runtime/store/safetensors/writer.h"

namespace trireme::interop {

/// Whose files are written in place of those that the run has kept.
struct OutputTokenizer {
  std::string directory;
  std::optional<Index> bos, eos;  // for a config.json that the run has not kept
};

struct ExportOptions {
  safetensors::WriteOptions files;
  int threads = 1;  // that read the step
  std::optional<OutputTokenizer> tokenizer = {};
};

/// Writes the parameters of `step` as the directory `output`, which must not exist: config.json,
/// *.safetensors, the tokenizer, and what `run` has kept of the model that it began with. It
/// appears whole, or not at all. Throws: Error that says what is in the way.
void export_model(const OpenedStep& step, const std::string& run, const TransformerConfig& model,
                  const std::string& output, const ExportOptions& options);

/// Writes the parameters of `step`, whatever its model, as the file `output`, which must not exist.
/// Throws: as safetensors::write_file, and Error of reading.
void export_parameters(const OpenedStep& step, const std::string& output,
                       const ExportOptions& options);

}  // namespace trireme::interop
