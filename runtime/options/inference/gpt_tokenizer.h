// The tokenizer of a job: its data, --tokenizer and the model of --load-hf must have the same one.
// Parts of check_gpt_options and open_gpt_data (options/gpt_options.h).
#pragma once

#include <memory>
#include <string>

#include "trireme/options/gpt_options.h"

#include "runtime/data/prepare/encoder.h"

namespace trireme::options {

/// "; that of the model is --tokenizer PATH", where one lies beside the model; "" otherwise.
std::string tokenizer_to_give(const Options& options);

/// GptData::encoder. Null without --generate and where it cannot be used.
std::shared_ptr<const data::TextEncoder> open_encoder(const Options& options, const GptOptions& gpt,
                                                      Problems& problems);

/// `read`: the tokenizer of the data that was opened, where it is known. Sets GptData::tokenizer.
void settle_tokenizer(const Options& options, const GptOptions& gpt, const UsedTokenizer& read,
                      GptData& data, Problems& problems);

}  // namespace trireme::options
