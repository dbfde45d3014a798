// The tokenizer that a run keeps of the model of Hugging Face with which it began. Its manifests
// name none where the run was imported by an earlier version, or trained on data without a sidecar.
#pragma once

#include <map>
#include <string>

#include "trireme/core/key_values.h"

#include "runtime/store/manifest.h"

namespace trireme::checkpoint {

/// Each "" where there is nothing to say; all on one line.
struct TokenizerFindings {
  std::string difference;  // as a sentence of differences(), which does not have it
  std::string hint;        // continues the sentence that names both tokenizers, here or there
  std::string doubt;       // why nothing can be compared
};
/// `checkpoint`: a step of `run`. `identity`: of the job, which may name a tokenizer; `files` that
/// its entries describe.
TokenizerFindings compare_tokenizers(const Manifest& checkpoint, const KeyValues& identity,
                                     const std::map<std::string, std::string>& files,
                                     const std::string& run);

}  // namespace trireme::checkpoint
