// --tokenizer of `trireme hf export`.
#pragma once

#include <string>

#include "runtime/interop/export.h"

namespace trireme {

/// `path`: a directory of a tokenizer, or the tokenizer.json in it. `vocabulary`: of the model that
/// `step` of `run` has. Throws: Error that names the path and the other tokenizer when it is not
/// that of the run, or when it cannot be read or copied.
interop::OutputTokenizer tokenizer_for(const std::string& path, const OpenedStep& step,
                                       const std::string& run, Index vocabulary);

/// What to do about an export that has no tokenizer.
std::string advice_without_tokenizer(const OpenedStep& step);

}  // namespace trireme
