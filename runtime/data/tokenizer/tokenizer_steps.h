// The normalizer, pre-tokenizer and decoder of a tokenizer.json as steps. What is not understood
// becomes a problem.
#pragma once

#include <string>
#include <vector>

#include "runtime/core/json.h"
#include "runtime/data/tokenizer/tokenizer_definition.h"

namespace trireme::data {

using Problems = std::vector<std::string>;

void read_normalizer(const Json& json, std::vector<NormalizerStep>& steps, Problems& problems);

/// Each ByteLevel ends with a step `alphabet`.
void read_pretokenizer(const Json& json, std::vector<PretokenizerStep>& steps, Problems& problems);

/// `decoder.byte_level` is there before.
void read_decoder(const Json& json, Decoder& decoder, Problems& problems);

/// What it adds is of no concern; its kind must be known.
void read_post_processor(const Json& json, Problems& problems);

}  // namespace trireme::data
